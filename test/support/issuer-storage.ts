/** The records of oidc-provider, by the name of their model. Survives a restart of the issuer, as a database would. */
export class IssuerStorage {
  readonly #records = new Map<string, Record<string, unknown>>();

  /** The adapter interface of oidc-provider, which checks the expiry of each record itself. */
  readonly adapter = (model: string) => {
    const records = this.#records;
    const key = (id: string) => `${model}:${id}`;
    const findBy = (field: string, value: string) =>
      Promise.resolve(
        records.entries().find(([k, record]) => k.startsWith(`${model}:`) && record[field] === value)?.[1],
      );

    return {
      upsert: (id: string, record: Record<string, unknown>) => Promise.resolve(void records.set(key(id), record)),
      find: (id: string) => Promise.resolve(records.get(key(id))),
      findByUid: (uid: string) => findBy('uid', uid),
      findByUserCode: (userCode: string) => findBy('userCode', userCode),
      destroy: (id: string) => Promise.resolve(void records.delete(key(id))),
      consume: (id: string) => {
        const record = records.get(key(id));
        if (record) record['consumed'] = Math.floor(Date.now() / 1000);
        return Promise.resolve();
      },
      revokeByGrantId: (grantId: string) => {
        for (const [k, record] of records) if (record['grantId'] === grantId) records.delete(k);
        return Promise.resolve();
      },
    };
  };
}
