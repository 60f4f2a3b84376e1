import { randomBytes } from 'node:crypto';
import { Secret } from '../base/secret.ts';
import { type SecretStore, StoreError } from '../cluster/index.ts';

/** Keys for the object store. */
export interface StoreKeys {
  readonly accessKey: Secret;
  readonly secretKey: Secret;
}

/** The keys of a user, made when first asked for. The access key is the uid, as clients expect (contract §4.4). */
export async function ensureUserKeys(uid: string, secrets: SecretStore): Promise<StoreKeys> {
  const known = await secrets.get('user', uid);
  if (known) return readKeys(known.values);
  try {
    const values = { accessKey: new Secret(uid), secretKey: new Secret(randomBytes(30).toString('base64url')) };
    await secrets.put('user', uid, values, 'absent');
    return values;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'exists') return ensureUserKeys(uid, secrets);
    throw error;
  }
}

function readKeys({ accessKey, secretKey }: Readonly<Record<string, Secret>>): StoreKeys {
  if (!accessKey || !secretKey) throw new Error('the stored keys of a user are incomplete');
  return { accessKey, secretKey };
}
