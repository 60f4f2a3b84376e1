import { randomBytes } from 'node:crypto';
import { Secret } from '../lib/secret.ts';
import { type ObjectStore, type SecretStore, StorageError, StoreError, type StoreKeys } from '../ports/index.ts';

/** Where the keys of users are stored, and the object store that must accept them. */
export interface UserKeysDeps {
  readonly secrets: SecretStore;
  /** Absent if this manager does not manage an object store. */
  readonly objects?: ObjectStore | undefined;
}

/** Empty keys, for stores in which users cannot have keys. */
const NO_KEYS: StoreKeys = { accessKey: new Secret(''), secretKey: new Secret('') };

/**
 * The keys of a user, created on first use. The access key is the uid, as clients expect (docs/go-manager.md#in-minio). The
 * keys are sent to the store each time, so that a store that missed them, because a manager stopped in between, gets them
 * (R11).
 */
export async function ensureUserKeys(uid: string, deps: UserKeysDeps): Promise<StoreKeys> {
  if (deps.objects?.noUserKeys !== undefined) return NO_KEYS;
  return tellStore(uid, await keptKeys(uid, deps.secrets), deps);
}

/** Creates new keys and invalidates the old ones. */
export async function rotateUserKeys(uid: string, deps: UserKeysDeps): Promise<StoreKeys> {
  const { noUserKeys } = deps.objects ?? {};
  if (noUserKeys !== undefined) throw new StorageError('no-user-keys', noUserKeys);
  const keys = newKeys(uid);
  await deps.secrets.put('user', uid, { ...keys });
  return tellStore(uid, keys, deps);
}

/**
 * Sends the keys to the store, then checks that they are still the stored keys: another manager may have rotated them and
 * sent its own first. So the store ends up with the keys that are stored.
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
