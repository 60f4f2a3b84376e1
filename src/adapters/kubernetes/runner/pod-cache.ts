import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { Informer, type InformerHandler, type InformerOptions } from '../client/informer.ts';
import { type KubeObject, SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { WatchCache } from '../client/watch-cache.ts';
import { ATTEMPT, claimedAt, POD, type Pod, slimPod } from './pod.ts';

/** The Secrets and pods of all attempts, updated by watches. Every manager of the cluster has this cache. */
export class PodCache {
  readonly secrets: WatchCache<SecretObject>;
  /** Pods of attempts, by the name of the attempt. */
  readonly pods: WatchCache<Pod>;
  /** Warm pods that wait for an attempt, by their names. */
  readonly waiting: WatchCache<Pod>;
  readonly #seen: PodsByAttempt;
  readonly #api: Api;
  readonly #informers: readonly [Informer<SecretObject>, Informer<Pod>];
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();
  readonly #watched: (name: string) => void;
  #opened: Promise<unknown> | undefined;

  /** `watched` is called with the name of an attempt that has changed, `warm` when a warm pod has changed. */
  constructor(
    api: Api,
    watch: Pick<InformerOptions, 'watchMs' | 'silenceMs'>,
    report: (problem: unknown) => void,
    { watched, warm }: { readonly watched: (name: string) => void; readonly warm: () => void },
  ) {
    this.#api = api;
    this.#watched = watched;
    const tell = (name: string) => this.#notify(name);
    this.secrets = new WatchCache(withoutValues, tell, report);
    this.#seen = new PodsByAttempt({ attempt: tell, waiting: warm }, report);
    this.pods = this.#seen.attempts;
    this.waiting = this.#seen.waiting;
    const options = { labelSelector: ATTEMPT, ...watch };
    this.#informers = [new Informer(api, SECRET, this.secrets, options), new Informer(api, POD, this.#seen, options)];
  }

  /** Puts a pod from a response of the server. */
  putPod(pod: Stored<Pod>): void {
    this.#seen.put(pod);
  }

  /** Resolves when everything has been listed once. */
  async open(): Promise<void> {
    this.#opened ??= Promise.all(this.#informers.map((informer) => informer.start()));
    await this.#opened;
  }

  /** The record of an attempt. On a miss the server is asked: another manager may have just created it. */
  async find(name: string): Promise<Stored<SecretObject> | undefined> {
    await this.open();
    const known = this.secrets.get(name);
    if (known) return known;
    const { items } = await this.#api
      .page<SecretObject>(SECRET, {}, { labelSelector: `${ATTEMPT}=${name}`, limit: 1 })
      .catch((error) => {
        throw toStoreError(error, `look for attempt ${name}`);
      });
    for (const object of items ?? []) this.secrets.put(object);
    return this.secrets.get(name);
  }

  /** Reads the pod of an attempt from the server: the watch of pods may be behind the watch of Secrets. */
  async refreshPod({ metadata: { name, namespace } }: Stored<SecretObject>): Promise<void> {
    const { items } = await this.#api
      .page<Pod>(POD, { namespace }, { labelSelector: `${ATTEMPT}=${name}`, limit: 1 })
      .catch((error) => {
        throw toStoreError(error, `look for the pod of attempt ${name}`);
      });
    for (const pod of items ?? []) this.putPod(pod);
  }

  /** Resolves at the next change of an attempt. Call it before reading the current state. */
  nextChange(name: string): Promise<void> {
    const waiting = this.#waiting.get(name) ?? Promise.withResolvers<void>();
    this.#waiting.set(name, waiting);
    return waiting.promise;
  }

  /** Resolves `nextChange` of this attempt. */
  wake(name: string): void {
    const waiting = this.#waiting.get(name);
    this.#waiting.delete(name);
    waiting?.resolve();
  }

  async close(): Promise<void> {
    await Promise.all(this.#informers.map((informer) => informer.stop()));
    for (const name of this.#waiting.keys()) this.wake(name);
  }

  #notify(name: string): void {
    this.wake(name);
    this.#watched(name);
  }
}

/** Drops the data, so that keys and inputs are not in the memory of every manager. */
function withoutValues({ metadata }: Stored<SecretObject>): Stored<SecretObject> {
  return { metadata };
}

/** Divides pods into those of attempts, by attempt, and warm pods that wait for one, by name. */
export class PodsByAttempt implements InformerHandler<Pod> {
  readonly slim = slimPod;
  readonly attempts: WatchCache<Pod>;
  readonly waiting: WatchCache<Pod>;

  constructor(
    tell: { readonly attempt: (name: string) => void; readonly waiting: (name: string) => void },
    report: (problem: unknown) => void,
  ) {
    this.attempts = new WatchCache(slimPod, tell.attempt, report, attemptName);
    this.waiting = new WatchCache(slimPod, tell.waiting, report);
  }

  /** A claimed pod no longer waits, even if an older event says so. */
  put(pod: Stored<Pod>): void {
    if (attemptName(pod) === '') return this.waiting.put(pod);
    if (claimedAt(pod) !== undefined) this.waiting.drop(pod);
    this.attempts.put(pod);
  }

  onListed(pods: readonly Stored<Pod>[], resourceVersion: string): void {
    const ofAttempts = pods.filter((pod) => attemptName(pod) !== '');
    for (const pod of ofAttempts) if (claimedAt(pod) !== undefined) this.waiting.drop(pod);
    this.attempts.onListed(ofAttempts, resourceVersion);
    this.waiting.onListed(
      pods.filter((pod) => attemptName(pod) === ''),
      resourceVersion,
    );
  }

  onChanged(pod: Stored<Pod>): void {
    this.put(pod);
  }

  onDeleted(pod: Stored<Pod>): void {
    if (attemptName(pod) === '') this.waiting.drop(pod);
    else this.attempts.drop(pod);
  }

  onError(error: unknown): void {
    this.attempts.onError(error);
  }
}

const attemptName = ({ metadata }: KubeObject) => metadata.labels?.[ATTEMPT] ?? metadata.name;
