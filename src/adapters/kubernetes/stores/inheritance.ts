import { Secret } from '../../../lib/secret.ts';
import type { SecretKind, SecretValues } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { replaceObject } from '../client/writes.ts';
import { isObjectName, ROOM } from '../objects/labels.ts';

export interface InheritanceOptions {
  /** Where a Go manager keeps the keys of users. */
  readonly servicesNamespace: string;
  /** What it left in clear in the definition of a service. */
  readonly credentialsOf: (uid: string) => SecretValues | undefined;
}

/**
 * What a Go manager that had the cluster before keeps in other places than this one: the keys of users in Secrets named
 * like them (docs/go-manager.md#in-minio), and keys of services in their definitions. Taken over, so that keys that
 * people have written down go on working.
 */
export class Inheritance {
  readonly #api: Api;
  readonly #options: InheritanceOptions;

  constructor(api: Api, options: InheritanceOptions) {
    this.#api = api;
    this.#options = options;
  }

  async find(room: SecretKind, key: string): Promise<SecretValues | undefined> {
    if (room === 'credentials') return this.#options.credentialsOf(key);
    const object = room === 'user' ? await this.#userSecret(key) : undefined;
    if (!object) return undefined;
    return { accessKey: new Secret(textIn(object, 'accessKey')), secretKey: new Secret(textIn(object, 'secretKey')) };
  }

  /** The Go manager that comes back finds the keys that hold now. */
  async changed(room: SecretKind, key: string, { secretKey }: SecretValues): Promise<void> {
    if (room !== 'user' || !secretKey) return;
    for (;;) {
      const object = await this.#userSecret(key);
      if (!object || secretKey.equals(textIn(object, 'secretKey'))) return;
      const data = { ...object.data, secretKey: Buffer.from(secretKey.reveal()).toString('base64') };
      if ((await replaceObject(this.#api, SECRET, { ...object, data }, object)) !== 'conflict') return;
    }
  }

  /** Names are cut, and services have Secrets beside: it counts only if it says that it is of that very user (S15). */
  async #userSecret(uid: string): Promise<Stored<SecretObject> | undefined> {
    const [name = ''] = uid.split('@');
    if (!isObjectName(name)) return undefined;
    const namespace = this.#options.servicesNamespace;
    const object = await this.#api.get<SecretObject>(SECRET, { namespace, name }).catch((error: unknown) => {
      throw toStoreError(error, `read Secret ${name} in namespace ${namespace}`);
    });
    if (!object || object.metadata.labels?.[ROOM] !== undefined) return undefined;
    const isTheirs = textIn(object, 'oidc_uid') === uid && textIn(object, 'accessKey') === uid;
    return isTheirs && textIn(object, 'secretKey') !== '' ? object : undefined;
  }
}

const textIn = ({ data }: Stored<SecretObject>, key: string) => Buffer.from(data?.[key] ?? '', 'base64').toString();
