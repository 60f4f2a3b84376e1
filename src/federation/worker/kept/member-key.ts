import { Secret } from '../../../base/secret.ts';
import type { Catalog } from '../../../catalog/index.ts';
import { isRace, type SecretRecord } from '../../../cluster/index.ts';
import { keyIdOf } from '../../peer/signature.ts';
import { forgetBefore } from './before.ts';

type Stores = Pick<Catalog, 'secrets'>;

/** The key of a worker, and the one that it has replaced, as long as that is good. */
export interface KeptKey {
  readonly key: Secret;
  readonly former?: FormerKey;
}

export interface FormerKey {
  readonly key: Secret;
  readonly until: number;
}

const ROOM = 'member';

export async function keepMemberKey(
  keyId: string,
  { key, former }: KeptKey,
  { secrets }: Stores,
  expected?: SecretRecord['version'],
): Promise<void> {
  const replaced = former && { former: former.key, until: new Secret(String(former.until)) };
  await secrets.put(ROOM, keyId, { key, ...replaced }, expected);
}

export async function keptKey(keyId: string, { secrets }: Stores): Promise<KeptKey | undefined> {
  const { key, former, until } = (await secrets.get(ROOM, keyId))?.values ?? {};
  if (!key) return undefined;
  return former && until ? { key, former: { key: former, until: Number(until.reveal()) } } : { key };
}

/** The key is in use: what it has replaced is good for nothing from here on. */
export async function endFormerKey(keyId: string, stores: Stores): Promise<void> {
  const record = await stores.secrets.get(ROOM, keyId);
  const { key, former } = record?.values ?? {};
  if (!record || !key || !former) return;
  await forgetMember(keyIdOf(former), stores);
  try {
    await keepMemberKey(keyId, { key }, stores, record.version);
  } catch (error) {
    // Somebody else has ended it, or the worker.
    if (!isRace(error)) throw error;
  }
}

/** Everything that is kept for a worker beside the service itself. */
export async function forgetMember(keyId: string, stores: Stores): Promise<void> {
  await forgetBefore(keyId, stores);
  await stores.secrets.remove(ROOM, keyId);
}
