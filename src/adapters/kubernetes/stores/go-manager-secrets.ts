import { Secret } from '../../../lib/secret.ts';
import type { SecretKind, SecretValues } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { replaceObject } from '../client/writes.ts';
import { isObjectName, PURPOSE } from '../objects/labels.ts';

export interface GoManagerSecretsOptions {
  /** The namespace where a Go manager keeps the keys of users. */
  readonly servicesNamespace: string;
  /** Credentials that it stored in clear text in the definition of a service. */
  readonly credentialsFor: (uid: string) => SecretValues | undefined;
}

/**
 * Secrets of a Go manager that ran in this cluster before. It keeps the keys of users in Secrets named like the users
 * (docs/go-manager.md#in-minio), and keys of services in their definitions. They are adopted, so that the keys that people
 * use keep working.
 */
export class GoManagerSecrets {
  readonly #api: Api;
  readonly #options: GoManagerSecretsOptions;

  constructor(api: Api, options: GoManagerSecretsOptions) {
    this.#api = api;
    this.#options = options;
  }

  async find(kind: SecretKind, key: string): Promise<SecretValues | undefined> {
    if (kind === 'credentials') return this.#options.credentialsFor(key);
    const object = kind === 'user' ? await this.#userSecret(key) : undefined;
    if (!object) return undefined;
    return { accessKey: new Secret(textIn(object, 'accessKey')), secretKey: new Secret(textIn(object, 'secretKey')) };
  }

  /** Writes a changed key back, so that a Go manager that comes back finds the current one. */
  async changed(kind: SecretKind, key: string, { secretKey }: SecretValues): Promise<void> {
    if (kind !== 'user' || !secretKey) return;
    for (;;) {
      const object = await this.#userSecret(key);
      if (!object || secretKey.equals(textIn(object, 'secretKey'))) return;
      const data = { ...object.data, secretKey: Buffer.from(secretKey.reveal()).toString('base64') };
      if ((await replaceObject(this.#api, SECRET, { ...object, data }, object)) !== 'conflict') return;
    }
  }

  /** Names are truncated, and services have Secrets in the same namespace: a Secret counts only if it names exactly this user (S15). */
  async #userSecret(uid: string): Promise<Stored<SecretObject> | undefined> {
    const [name = ''] = uid.split('@');
    if (!isObjectName(name)) return undefined;
    const namespace = this.#options.servicesNamespace;
    const object = await this.#api.get<SecretObject>(SECRET, { namespace, name }).catch((error: unknown) => {
      throw toStoreError(error, `read Secret ${name} in namespace ${namespace}`);
    });
    if (!object || object.metadata.labels?.[PURPOSE] !== undefined) return undefined;
    const isOfUser = textIn(object, 'oidc_uid') === uid && textIn(object, 'accessKey') === uid;
    return isOfUser && textIn(object, 'secretKey') !== '' ? object : undefined;
  }
}

const textIn = ({ data }: Stored<SecretObject>, key: string) => Buffer.from(data?.[key] ?? '', 'base64').toString();
