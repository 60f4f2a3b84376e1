import { isDeepStrictEqual } from 'node:util';
import { StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { createObject, describeObject, removeObject, replaceObject } from '../client/writes.ts';
import { derivedName } from '../objects/labels.ts';

export interface PullSecretsOptions {
  /** Namespace of the manager, where the original Secrets are. */
  readonly manager: string;
  readonly names: readonly string[];
  /** Called with problems that keep a Secret from being copied. */
  readonly report: (problem: unknown) => void;
}

/** Label on a copy: the namespace of the manager that created it, since a cluster can have several installations. */
const COPIED_FOR = 'oscar.grycap/pull-secret-of';

/** For each type of Secret that the kubelet uses for pulls, the one key that it reads. Nothing else leaves the manager's namespace. */
const KEYS: Readonly<Record<string, string>> = {
  'kubernetes.io/dockerconfigjson': '.dockerconfigjson',
  'kubernetes.io/dockercfg': '.dockercfg',
};

type Credential = Required<Pick<SecretObject, 'type' | 'data'>> & { readonly copy: string };

/**
 * Copies the Secrets with which the manager's image is pulled to the namespaces where its containers run in pods: a pod can
 * use only Secrets of its own namespace. A copy has a name that no user's Secret has and a label with its origin, and it
 * follows the original.
 */
export class PullSecrets {
  readonly #api: Api;
  readonly #options: PullSecretsOptions;
  readonly #names: ReadonlyMap<string, string>;
  /** The last reported problem, by Secret. The sync runs every minute; each problem is reported once. */
  readonly #reported = new Map<string, string>();
  #cleanedUp = false;

  constructor(api: Api, options: PullSecretsOptions) {
    this.#api = api;
    this.#options = options;
    this.#names = new Map(options.names.map((name) => [name, derivedName('pull', `${options.manager}/${name}`)]));
  }

  /** The names of the copies, the same in every namespace. */
  get copies(): string[] {
    return [...this.#names.values()];
  }

  /** Brings the copies in one namespace up to date. */
  async syncNamespace(namespace: string): Promise<void> {
    if (this.#names.size === 0) return;
    await this.#sync(namespace, await this.#credentials(), await this.#listCopies(namespace));
  }

  /** Brings the copies up to date in all these namespaces and wherever else one exists, and removes those that are no longer wanted. */
  async syncAll(namespaces: Iterable<string>, signal: AbortSignal): Promise<void> {
    if (this.#names.size === 0 && this.#cleanedUp) return;
    const made = Map.groupBy(await this.#listCopies(), ({ metadata }) => metadata.namespace ?? '');
    const credentials = await this.#credentials();
    for (const namespace of new Set([...namespaces, ...made.keys()])) {
      if (signal.aborted) return;
      await this.#sync(namespace, credentials, made.get(namespace) ?? []).catch(this.#options.report);
    }
    this.#cleanedUp = true;
  }

  async #sync(namespace: string, credentials: readonly Credential[], made: readonly Stored<SecretObject>[]) {
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
      // On a conflict another manager has written the same; if not, the next sync in a minute corrects it.
      await replaceObject(this.#api, SECRET, { ...copy, metadata: { ...copy.metadata, resourceVersion } }, there);
      return;
    }
    // The type of a Secret cannot be changed.
    if (there) await removeObject(this.#api, SECRET, there, { anyVersion: true });
    if ((await createObject(this.#api, SECRET, copy)) !== 'exists') return;
    const found = await this.#read({ namespace, name });
    if (!found || found.metadata.labels?.[COPIED_FOR] === this.#options.manager) return;
    const message = `${describeObject(SECRET, copy)} is in the way of the manager's pull secret of that name: remove it`;
    this.#reportOnce(`${namespace}/${name}`, new StoreError('conflict', message));
  }

  /** The Secrets to copy. One that cannot be copied is reported, and its earlier copies stay. */
  async #credentials(): Promise<Credential[]> {
    const found: Credential[] = [];
    for (const [name, copy] of this.#names) {
      const source = await this.#read({ namespace: this.#options.manager, name });
      const key = KEYS[source?.type ?? ''];
      const value = key === undefined ? undefined : source?.data?.[key];
      if (source?.type !== undefined && key !== undefined && value !== undefined) {
        found.push({ copy, type: source.type, data: { [key]: value } });
        this.#reported.delete(name);
      } else this.#reportOnce(name, this.#copyProblem(name, source));
    }
    return found;
  }

  #copyProblem(name: string, source: Stored<SecretObject> | undefined): StoreError {
    const place = `the Secret ${name} in namespace ${this.#options.manager}, which OSCAR_STAGING_PULL_SECRETS names,`;
    const wanted = `a pull secret must be of type ${Object.keys(KEYS).join(' or ')}`;
    return source
      ? new StoreError('refused', `${place} is of type ${source.type} and is not copied: ${wanted}`)
      : new StoreError('absent', `${place} does not exist: pods cannot pull the image of the manager with it`);
  }

  #reportOnce(about: string, problem: StoreError): void {
    if (this.#reported.get(about) === problem.message) return;
    this.#reported.set(about, problem.message);
    this.#options.report(problem);
  }

  async #read(place: { namespace: string; name: string }): Promise<Stored<SecretObject> | undefined> {
    return this.#api.get<SecretObject>(SECRET, place).catch((error: unknown) => {
      throw toStoreError(error, `read ${describeObject(SECRET, { metadata: place })}`);
    });
  }

  async #listCopies(namespace?: string): Promise<Stored<SecretObject>[]> {
    const labelSelector = `${COPIED_FOR}=${this.#options.manager}`;
    try {
      return (await this.#api.list<SecretObject>(SECRET, { namespace }, { labelSelector })).items;
    } catch (error) {
      throw toStoreError(error, "list the copies of the manager's pull secrets");
    }
  }
}
