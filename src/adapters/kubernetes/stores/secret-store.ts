import { Secret } from '../../../lib/secret.ts';
import type { Cursor, Page, Version } from '../../../lib/version.ts';
import {
  cursorAfter,
  cursorPosition,
  type SecretKind,
  type SecretRecord,
  type SecretStore,
  type SecretValues,
  StoreError,
} from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { type KubeObject, SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { createObject, describeObject, isSuperseded, removeObject, replaceObject } from '../client/writes.ts';
import { derivedName, isObjectName, KEY, PURPOSE } from '../objects/labels.ts';
import { compareBytes } from './compare-bytes.ts';
import type { GoManagerSecrets } from './go-manager-secrets.ts';

/** Keys in a page. */
const PAGE = 500;

interface KubernetesSecretStoreOptions {
  /** Namespace of the manager; all kinds except `service` are there. */
  readonly namespace: string;
  /** Names of the secrets that the service `<namespace>/<service>` declares; undefined when there is no such service. */
  readonly declared: (key: string) => readonly string[] | undefined;
  /** Secrets of a Go manager; they are imported when they are first read. */
  readonly goManagerSecrets?: GoManagerSecrets;
  readonly page?: number;
}

/**
 * Stores secrets as Kubernetes Secrets. Those of a service are in its namespace under its name, with plain keys, because
 * pods use them. All others are in the manager's namespace, where no user's pod can run, under names that no service can
 * have (S15).
 */
export class KubernetesSecretStore implements SecretStore {
  readonly #api: Api;
  readonly #options: KubernetesSecretStoreOptions;

  constructor(api: Api, options: KubernetesSecretStoreOptions) {
    this.#api = api;
    this.#options = options;
  }

  async get(kind: SecretKind, key: string): Promise<SecretRecord | undefined> {
    const object = await this.#read(kind, key);
    if (!object) return this.#importFromGo(kind, key);
    if (!this.#isOurs(kind, key, object)) return undefined;
    return { values: unpack(kind, object), version: object.metadata.resourceVersion as Version };
  }

  async put(kind: SecretKind, key: string, values: SecretValues, expected?: Version | 'absent'): Promise<Version> {
    const object = pack(kind, key, values, this.#options.namespace);
    for (;;) {
      const written = await this.#write(kind, key, object, expected);
      if (!written) continue;
      await this.#options.goManagerSecrets?.changed(kind, key, values);
      return written;
    }
  }

  async remove(kind: SecretKind, key: string): Promise<void> {
    for (;;) {
      const object = await this.#read(kind, key);
      if (!object || !this.#isOurs(kind, key, object)) return;
      if ((await removeObject(this.#api, SECRET, object, { anyVersion: true })) !== 'conflict') return;
    }
  }

  async keys(kind: SecretKind, cursor?: Cursor): Promise<Page<string>> {
    const start = cursorPosition(cursor);
    const place = kind === 'service' ? {} : { namespace: this.#options.namespace };
    const options = { labelSelector: `${PURPOSE}=${kind}`, metadataOnly: true };
    const { items } = await this.#api.list<KubeObject>(SECRET, place, options).catch((error) => {
      throw toStoreError(error, `list the secrets of ${kind}`);
    });
    const keys = items
      .flatMap(({ metadata }) => metadata.annotations?.[KEY] ?? [])
      .filter((key) => compareBytes(key, start) >= 0)
      .toSorted(compareBytes);
    const shown = keys.slice(0, this.#options.page ?? PAGE);
    const last = shown.at(-1);
    return keys.length > shown.length && last !== undefined
      ? { items: shown, next: cursorAfter(last) }
      : { items: shown };
  }

  /** Adopts the secrets that a Go manager has stored for a service, so that they no longer depend on its definition. */
  async adopt(uid: string, place: string): Promise<void> {
    await this.get('credentials', uid);
    const object = await this.#read('service', place);
    if (!object || hasKindAndKey('service', place, object) || !this.#isOurs('service', place, object)) return;
    await this.put('service', place, unpack('service', object));
  }

  async #importFromGo(kind: SecretKind, key: string): Promise<SecretRecord | undefined> {
    const values = await this.#options.goManagerSecrets?.find(kind, key);
    if (!values) return undefined;
    const made = await createObject(this.#api, SECRET, pack(kind, key, values, this.#options.namespace));
    // Another manager may have imported it first, and have changed it since.
    return made === 'exists' ? this.get(kind, key) : { values, version: made.metadata.resourceVersion as Version };
  }

  /** Undefined when another write came in between and the caller expects no version: retry. */
  async #write(
    kind: SecretKind,
    key: string,
    object: SecretObject,
    expected: Version | 'absent' | undefined,
  ): Promise<Version | undefined> {
    const there = expected === 'absent' ? undefined : await this.#read(kind, key);
    if (there && !this.#isOurs(kind, key, there)) throw foreign(object);
    if (expected !== undefined && expected !== 'absent' && there?.metadata.resourceVersion !== expected) {
      throw changed(kind, key);
    }
    if (!there) {
      const made = await createObject(this.#api, SECRET, object);
      if (made !== 'exists') return made.metadata.resourceVersion as Version;
      if (expected === 'absent') await this.#rejectExisting(kind, key, object);
      return undefined;
    }
    const { resourceVersion } = there.metadata;
    const next = { ...object, metadata: { ...object.metadata, resourceVersion } };
    const written = await replaceObject(this.#api, SECRET, next, there);
    if (written === 'conflict' || written === 'absent') {
      if (expected !== undefined) throw changed(kind, key);
      return undefined;
    }
    // Written, and already replaced by another writer: return a version that never matches, so that the caller's next write conflicts.
    return (isSuperseded(written) ? `superseded-${resourceVersion}` : written.metadata.resourceVersion) as Version;
  }

  async #rejectExisting(kind: SecretKind, key: string, object: SecretObject): Promise<void> {
    const there = await this.#read(kind, key);
    if (!there) return;
    if (!this.#isOurs(kind, key, there)) throw foreign(object);
    throw new StoreError('exists', `secrets of ${kind} ${key} already exist`);
  }

  /**
   * A Secret with the name of a service need not contain its secrets: Go managers keep keys of users and of the object store
   * in the same namespace (S15). A Secret that a Go manager wrote for a service has no label, but exactly the keys that the
   * service declares.
   */
  #isOurs(kind: SecretKind, key: string, object: Stored<SecretObject>): boolean {
    if (hasKindAndKey(kind, key, object)) return true;
    const declared = kind === 'service' ? this.#options.declared(key) : undefined;
    const names = Object.keys(object.data ?? {});
    return declared !== undefined && names.length > 0 && declared.toSorted().join() === names.toSorted().join();
  }

  async #read(kind: SecretKind, key: string): Promise<Stored<SecretObject> | undefined> {
    const place = objectRef(kind, key, this.#options.namespace);
    if (!place) return undefined;
    try {
      return await this.#api.get<SecretObject>(SECRET, place);
    } catch (error) {
      throw toStoreError(error, `read ${describeObject(SECRET, { metadata: place })}`);
    }
  }
}

function changed(kind: SecretKind, key: string): StoreError {
  return new StoreError('conflict', `the secrets of ${kind} ${key} were changed meanwhile: read them again`);
}

function foreign(object: SecretObject): StoreError {
  const { name, namespace } = object.metadata;
  return new StoreError(
    'conflict',
    `the Secret "${name}" in namespace ${namespace} does not belong to this service: choose another name for the service`,
  );
}

/** Kubernetes' limit for all values of a Secret together. */
const SECRET_BYTES = 1024 * 1024;

/** The key with all values as JSON, for kinds whose names may be any text. */
const VALUES = 'values';

/** Undefined when the key cannot have a Secret. */
function objectRef(kind: SecretKind, key: string, manager: string): { namespace: string; name: string } | undefined {
  if (kind !== 'service') return { namespace: manager, name: derivedName(kind, key) };
  const [namespace = '', name = ''] = key.split('/');
  return isObjectName(namespace) && isObjectName(name) ? { namespace, name } : undefined;
}

/** Whether the labels of the Secret name this kind and key. */
function hasKindAndKey(kind: SecretKind, key: string, { metadata }: Stored<SecretObject>): boolean {
  return metadata.labels?.[PURPOSE] === kind && metadata.annotations?.[KEY] === key;
}

function pack(kind: SecretKind, key: string, values: SecretValues, manager: string): SecretObject {
  const place = objectRef(kind, key, manager);
  if (!place) throw new StoreError('absent', `"${key}" is not <namespace>/<service>`);
  const entries = Object.entries(values).map(([name, secret]) => [name, secret.reveal()] as const);
  const plain = kind === 'service' ? entries : [[VALUES, JSON.stringify(entries)] as const];
  const size = plain.reduce((sum, [, value]) => sum + Buffer.byteLength(value), 0);
  if (size > SECRET_BYTES) {
    throw new StoreError(
      'too-large',
      `the secrets of ${kind} ${key} have ${size} bytes, and Kubernetes stores at most ${SECRET_BYTES}`,
    );
  }
  return {
    metadata: { ...place, labels: { [PURPOSE]: kind }, annotations: { [KEY]: key } },
    type: 'Opaque',
    data: Object.fromEntries(plain.map(([name, value]) => [name, Buffer.from(value).toString('base64')])),
  };
}

function unpack(kind: SecretKind, { data = {}, metadata }: Stored<SecretObject>): SecretValues {
  const plain = Object.entries(data).map(([name, value]) => [name, Buffer.from(value, 'base64').toString()]);
  const entries = kind === 'service' ? plain : parse(Object.fromEntries(plain)[VALUES], metadata.name);
  return Object.freeze(Object.fromEntries(entries.map(([name = '', value = '']) => [name, new Secret(value)])));
}

function parse(packed: string | undefined, name: string): string[][] {
  try {
    const entries: string[][] = JSON.parse(packed ?? '');
    return entries;
  } catch {
    // Without the cause, because it would quote a secret value.
    throw new StoreError('damaged', `the Secret ${name} in the manager's namespace cannot be read`);
  }
}
