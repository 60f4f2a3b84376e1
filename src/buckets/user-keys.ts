import { randomBytes } from 'node:crypto';
import { Secret } from '../lib/secret.ts';
import { type ObjectStore, type SecretStore, StorageError, StoreError, type StoreKeys } from '../ports/index.ts';

/** Where the keys of users are kept, and the store that must know them. */
export interface UserKeysDeps {
  readonly secrets: SecretStore;
  /** Absent where this manager does not arrange the store. */
  readonly objects?: ObjectStore | undefined;
}

/** Where users can have none: so that nobody takes anything for keys. */
const NO_KEYS: StoreKeys = { accessKey: new Secret(''), secretKey: new Secret('') };

/**
 * The keys of a user, made when first asked for. The access key is the uid, as clients expect
 * (docs/go-manager.md#in-minio). The store is told each time, so that one that missed them, because a manager died in
 * between, learns of them (R11).
 */
export async function ensureUserKeys(uid: string, deps: UserKeysDeps): Promise<StoreKeys> {
  if (deps.objects?.noUserKeys !== undefined) return NO_KEYS;
  return tellStore(uid, await keptKeys(uid, deps.secrets), deps);
}

/** New keys; the old ones stop working. */
export async function rotateUserKeys(uid: string, deps: UserKeysDeps): Promise<StoreKeys> {
  const { noUserKeys } = deps.objects ?? {};
  if (noUserKeys !== undefined) throw new StorageError('no-user-keys', noUserKeys);
  const keys = newKeys(uid);
  await deps.secrets.put('user', uid, { ...keys });
  return tellStore(uid, keys, deps);
}

/**
 * Whoever tells the store looks afterwards whether these are still the keys: another manager may have rotated them, and have told the
 * store first. So the last word that the store hears is the one that is kept.
 */
async function tellStore(uid: string, keys: StoreKeys, { secrets, objects }: UserKeysDeps): Promise<StoreKeys> {
  if (!objects) return keys;
  for (let told = keys; ; ) {
    await objects.putUser(uid, told);
    const kept = await secrets.get('user', uid);
    if (!kept) return told;
    const now = readKeys(kept.values);
    if (now.secretKey.equals(told.secretKey)) return told;
    told = now;
  }
}

async function keptKeys(uid: string, secrets: SecretStore): Promise<StoreKeys> {
  const known = await secrets.get('user', uid);
  if (known) return readKeys(known.values);
  try {
    const keys = newKeys(uid);
    await secrets.put('user', uid, { ...keys }, 'absent');
    return keys;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'exists') return keptKeys(uid, secrets);
    throw error;
  }
}

const newKeys = (uid: string): StoreKeys => ({
  accessKey: new Secret(uid),
  secretKey: new Secret(randomBytes(30).toString('base64url')),
});

function readKeys({ accessKey, secretKey }: Readonly<Record<string, Secret>>): StoreKeys {
  if (!accessKey || !secretKey) throw new Error('the stored keys of a user are incomplete');
  return { accessKey, secretKey };
}
