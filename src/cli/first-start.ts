import { randomBytes } from 'node:crypto';
import { Secret } from '../base/secret.ts';
import { type SecretStore, StoreError } from '../cluster/index.ts';
import type { Config } from '../config.ts';
import type { StoreKeys } from '../storage/index.ts';

export interface OwnCredentials {
  readonly password: Secret;
  readonly storeKeys: StoreKeys;
  /** Made just now, to be shown this once. */
  readonly made: boolean;
}

/**
 * The administrator's password and the store's keys: those of the settings, or else random ones that are made at the
 * first start and kept with the other secrets. There is no default password that somebody could forget to change.
 */
export async function ownCredentials(
  config: Pick<Config, 'password' | 'minioAccessKey' | 'minioSecretKey'>,
  secrets: SecretStore,
): Promise<OwnCredentials> {
  const admin = config.password ? undefined : await keep('admin', { password: random(18) }, secrets);
  const given = config.minioAccessKey && config.minioSecretKey;
  const store = given ? undefined : await keep('store', { accessKey: random(15), secretKey: random(30) }, secrets);
  return {
    password: config.password ?? required(admin?.values['password']),
    storeKeys: {
      accessKey: config.minioAccessKey ?? required(store?.values['accessKey']),
      secretKey: config.minioSecretKey ?? required(store?.values['secretKey']),
    },
    made: admin?.made ?? false,
  };
}

type Values = Readonly<Record<string, Secret>>;

async function keep(key: string, fresh: Values, secrets: SecretStore): Promise<{ values: Values; made: boolean }> {
  try {
    await secrets.put('manager', key, fresh, 'absent');
    return { values: fresh, made: true };
  } catch (error) {
    if (!(error instanceof StoreError && error.code === 'exists')) throw error;
    const kept = await secrets.get('manager', key);
    return kept ? { values: kept.values, made: false } : keep(key, fresh, secrets);
  }
}

const random = (bytes: number) => new Secret(randomBytes(bytes).toString('base64url'));

function required(secret: Secret | undefined): Secret {
  if (!secret) throw new Error('the stored credentials of the manager are incomplete');
  return secret;
}
