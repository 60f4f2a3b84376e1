import { existsSync, readFileSync } from 'node:fs';
import type { JWK } from 'jose';
import { writePrivateFile } from '../../client/private-file.ts';

type Stored = Record<string, unknown>;

interface File {
  /** Signs tokens. */
  readonly key: JWK;
  readonly records: Readonly<Record<string, Stored>>;
}

/** The records that must survive a restart. */
const PERSISTENT = ['Grant', 'RefreshToken', 'DeviceCode'];

/**
 * The state of the issuer in a file, so that logins and grants survive a restart of `oscar up`. A rotated refresh token is
 * written before the client receives it.
 */
export class IssuerRecords {
  readonly key: JWK;
  readonly #path: string;
  readonly #records: Map<string, Stored>;

  private constructor(path: string, { key, records }: File) {
    this.#path = path;
    this.key = key;
    const now = Date.now() / 1000;
    this.#records = new Map(Object.entries(records).filter(([, { exp }]) => typeof exp !== 'number' || exp > now));
  }

  static async open(path: string, newKey: () => Promise<JWK>): Promise<IssuerRecords> {
    if (existsSync(path)) return new IssuerRecords(path, JSON.parse(readFileSync(path, 'utf8')) as File);
    const made = new IssuerRecords(path, { key: await newKey(), records: {} });
    made.#write();
    return made;
  }

  /** The adapter interface of oidc-provider. Expiry is in each record, and oidc-provider checks it. */
  readonly adapter = (model: string) => {
    const records = this.#records;
    const key = (id: string) => `${model}:${id}`;
    const findBy = (field: string, value: string) =>
      Promise.resolve(records.entries().find(([id, each]) => id.startsWith(`${model}:`) && each[field] === value)?.[1]);
    const changed = () => {
      if (PERSISTENT.includes(model)) this.#write();
      return Promise.resolve();
    };
    return {
      upsert: (id: string, record: Stored) => {
        records.set(key(id), record);
        return changed();
      },
      find: (id: string) => Promise.resolve(records.get(key(id))),
      findByUid: (uid: string) => findBy('uid', uid),
      findByUserCode: (userCode: string) => findBy('userCode', userCode),
      destroy: (id: string) => {
        records.delete(key(id));
        return changed();
      },
      consume: (id: string) => {
        const record = records.get(key(id));
        if (record) record['consumed'] = Math.floor(Date.now() / 1000);
        return changed();
      },
      revokeByGrantId: (grantId: string) => {
        for (const [id, each] of records) if (each['grantId'] === grantId) records.delete(id);
        return changed();
      },
    };
  };

  #write(): void {
    const records = Object.fromEntries(
      [...this.#records].filter(([id]) => PERSISTENT.includes(id.split(':')[0] ?? '')),
    );
    writePrivateFile(this.#path, JSON.stringify({ key: this.key, records } satisfies File));
  }
}
