import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { Informer, type InformerHandler, type InformerOptions } from '../client/informer.ts';
import { type KubeObject, SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { WatchCache } from '../client/watch-cache.ts';
import { ATTEMPT, claimedAt, POD, type Pod, slimPod } from './pod.ts';

/** The Secrets and pods of all attempts as they are by now, kept up by watches: every manager of the cluster has it. */
export class PodCache {
  readonly secrets: WatchCache<SecretObject>;
  /** By the attempts that they are of. */
  readonly pods: WatchCache<Pod>;
  /** Those that wait for an attempt, by their names. */
  readonly waiting: WatchCache<Pod>;
  readonly #seen: PodsByAttempt;
  readonly #api: Api;
  readonly #informers: readonly [Informer<SecretObject>, Informer<Pod>];
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();
  readonly #watched: (name: string) => void;
  #opened: Promise<unknown> | undefined;

  /** `watched` is told each name of an attempt of which something has changed, `warm` that a pod that waits has. */
  constructor(
    api: Api,
    watch: Pick<InformerOptions, 'watchMs' | 'silenceMs'>,
    report: (problem: unknown) => void,
    { watched, warm }: { readonly watched: (name: string) => void; readonly warm: () => void },
  ) {
    this.#api = api;
    this.#watched = watched;
    const tell = (name: string) => this.#tell(name);
    this.secrets = new WatchCache(withoutValues, tell, report);
    this.#seen = new PodsByAttempt({ attempt: tell, waiting: warm }, report);
    this.pods = this.#seen.attempts;
    this.waiting = this.#seen.waiting;
    const options = { labelSelector: ATTEMPT, ...watch };
    this.#informers = [new Informer(api, SECRET, this.secrets, options), new Informer(api, POD, this.#seen, options)];
  }

  /** A pod as the server has just said that it is. */
  putPod(pod: Stored<Pod>): void {
    this.#seen.put(pod);
  }

  /** Resolves when everything has been listed once. */
  async open(): Promise<void> {
    this.#opened ??= Promise.all(this.#informers.map((informer) => informer.start()));
    await this.#opened;
  }

  /** The record of an attempt. The server is asked once: another manager may have made it just now. */
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

  /** Its pod as the server has it: what is told of that may be behind what was told of its end. */
  async refreshPod({ metadata: { name, namespace } }: Stored<SecretObject>): Promise<void> {
    const { items } = await this.#api
      .page<Pod>(POD, { namespace }, { labelSelector: `${ATTEMPT}=${name}`, limit: 1 })
      .catch((error) => {
        throw toStoreError(error, `look for the pod of attempt ${name}`);
      });
    for (const pod of items ?? []) this.putPod(pod);
  }

  /** Resolves when something changes in one attempt. Ask before you look. */
  nextChange(name: string): Promise<void> {
    const waiting = this.#waiting.get(name) ?? Promise.withResolvers<void>();
    this.#waiting.set(name, waiting);
    return waiting.promise;
  }

  /** Whoever waits for a change looks again. */
  wake(name: string): void {
    const waiting = this.#waiting.get(name);
    this.#waiting.delete(name);
    waiting?.resolve();
  }

  async close(): Promise<void> {
    await Promise.all(this.#informers.map((informer) => informer.stop()));
    for (const name of this.#waiting.keys()) this.wake(name);
  }

  #tell(name: string): void {
    this.wake(name);
    this.#watched(name);
  }
}

/** Keys and inputs do not lie about in the memory of every manager. */
function withoutValues({ metadata }: Stored<SecretObject>): Stored<SecretObject> {
  return { metadata };
}

/** Pods by the attempts that they are of, and beside them those that wait for one, by their names. */
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

  /** One that has got its attempt does not wait any more, whatever older news say. */
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
