import { isDeepStrictEqual } from 'node:util';
import { StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { createObject, describeObject, removeObject, replaceObject } from '../client/writes.ts';
import { derivedName } from '../objects/labels.ts';

export interface PullSecretsOptions {
  /** Of the manager, where the Secrets are. */
  readonly manager: string;
  readonly names: readonly string[];
  /** Told what is in the way. */
  readonly report: (problem: unknown) => void;
}

/** On a copy: the namespace of the manager that made it, since a cluster can have several managers. */
const COPIED_FOR = 'oscar.grycap/pull-secret-of';

/** By the types of Secrets that the kubelet pulls with, the one key that it reads: nothing else leaves the manager's namespace. */
const KEYS: Readonly<Record<string, string>> = {
  'kubernetes.io/dockerconfigjson': '.dockerconfigjson',
  'kubernetes.io/dockercfg': '.dockercfg',
};

type Credential = Required<Pick<SecretObject, 'type' | 'data'>> & { readonly copy: string };

/**
 * What the manager's image is pulled with, in the namespaces of the pods that two of its containers are in: a pod can name
 * only Secrets of its own namespace. Copies have names that no user's Secret has, say whose they are, and follow the original.
 */
export class PullSecrets {
  readonly #api: Api;
  readonly #options: PullSecretsOptions;
  readonly #names: ReadonlyMap<string, string>;
  /** What was told of last, by Secret: once is enough, though it is looked at every minute. */
  readonly #told = new Map<string, string>();
  #tidied = false;

  constructor(api: Api, options: PullSecretsOptions) {
    this.#api = api;
    this.#options = options;
    this.#names = new Map(options.names.map((name) => [name, derivedName('pull', `${options.manager}/${name}`)]));
  }

  /** The names under which pods find them in their own namespace. */
  get copies(): string[] {
    return [...this.#names.values()];
  }

  /** Sees to the copies in a namespace that is being prepared. */
  async keepIn(namespace: string): Promise<void> {
    if (this.#names.size === 0) return;
    await this.#mend(namespace, await this.#credentials(), await this.#made(namespace));
  }

  /** Sees to those in all these namespaces, and wherever else one was made, and removes those that are not wanted any more. */
  async keepEverywhere(namespaces: Iterable<string>, signal: AbortSignal): Promise<void> {
    if (this.#names.size === 0 && this.#tidied) return;
    const made = Map.groupBy(await this.#made(), ({ metadata }) => metadata.namespace ?? '');
    const credentials = await this.#credentials();
    for (const namespace of new Set([...namespaces, ...made.keys()])) {
      if (signal.aborted) return;
      await this.#mend(namespace, credentials, made.get(namespace) ?? []).catch(this.#options.report);
    }
    this.#tidied = true;
  }

  async #mend(namespace: string, credentials: readonly Credential[], made: readonly Stored<SecretObject>[]) {
    for (const credential of credentials) {
      const there = made.find(({ metadata }) => metadata.name === credential.copy);
      await this.#copy(credential, namespace, there);
    }
    const wanted = new Set(this.copies);
    for (const copy of made) {
      if (!wanted.has(copy.metadata.name)) await removeObject(this.#api, SECRET, copy, { anyVersion: true });
    }
  }

  async #copy({ copy: name, type, data }: Credential, namespace: string, there: Stored<SecretObject> | undefined) {
    const labels = { 'app.kubernetes.io/managed-by': 'oscar', [COPIED_FOR]: this.#options.manager };
    const copy = { metadata: { name, namespace, labels }, type, data };
    if (there?.type === type) {
      if (isDeepStrictEqual(there.data, data)) return;
      const { resourceVersion } = there.metadata;
      // Whoever was faster has written the same, or what is looked at again in a minute.
      await replaceObject(this.#api, SECRET, { ...copy, metadata: { ...copy.metadata, resourceVersion } }, there);
      return;
    }
    // The type of a Secret cannot be changed.
    if (there) await removeObject(this.#api, SECRET, there, { anyVersion: true });
    if ((await createObject(this.#api, SECRET, copy)) !== 'exists') return;
    const found = await this.#read({ namespace, name });
    if (!found || found.metadata.labels?.[COPIED_FOR] === this.#options.manager) return;
    const message = `${describeObject(SECRET, copy)} is in the way of what the manager's image is pulled with there: remove it`;
    this.#tell(`${namespace}/${name}`, new StoreError('conflict', message));
  }

  /** What there is to copy. What cannot be copied is told of, and copies that were made earlier stay. */
  async #credentials(): Promise<Credential[]> {
    const found: Credential[] = [];
    for (const [name, copy] of this.#names) {
      const source = await this.#read({ namespace: this.#options.manager, name });
      const key = KEYS[source?.type ?? ''];
      const value = key === undefined ? undefined : source?.data?.[key];
      if (source?.type !== undefined && key !== undefined && value !== undefined) {
        found.push({ copy, type: source.type, data: { [key]: value } });
        this.#told.delete(name);
      } else this.#tell(name, this.#refusal(name, source));
    }
    return found;
  }

  #refusal(name: string, source: Stored<SecretObject> | undefined): StoreError {
    const place = `the Secret ${name} in namespace ${this.#options.manager}, which OSCAR_STAGING_PULL_SECRETS names,`;
    const wanted = `the image of the manager is pulled only with ${Object.keys(KEYS).join(' or ')}`;
    return source
      ? new StoreError('refused', `${place} is of type ${source.type}, and is not copied: ${wanted}`)
      : new StoreError('absent', `${place} is not there: pods cannot pull the image of the manager with it`);
  }

  #tell(about: string, problem: StoreError): void {
    if (this.#told.get(about) === problem.message) return;
    this.#told.set(about, problem.message);
    this.#options.report(problem);
  }

  async #read(place: { namespace: string; name: string }): Promise<Stored<SecretObject> | undefined> {
    return this.#api.get<SecretObject>(SECRET, place).catch((error: unknown) => {
      throw toStoreError(error, `read ${describeObject(SECRET, { metadata: place })}`);
    });
  }

  async #made(namespace?: string): Promise<Stored<SecretObject>[]> {
    const labelSelector = `${COPIED_FOR}=${this.#options.manager}`;
    try {
      return (await this.#api.list<SecretObject>(SECRET, { namespace }, { labelSelector })).items;
    } catch (error) {
      throw toStoreError(error, "list the copies of what the manager's image is pulled with");
    }
  }
}
