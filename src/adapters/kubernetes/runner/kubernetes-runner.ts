import { Readable } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';
import type { Attempt, Ended } from '../../../model/job/index.ts';
import { bytes, millicores } from '../../../model/service/index.ts';
import {
  type LogOptions,
  type Observation,
  type Runner,
  type StopReason,
  StoreError,
  type Usage,
} from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { type KubeKind, type KubeObject, SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { createObject, readObject, removeObject, updateObject } from '../client/writes.ts';
import { fitsWarmPod, secretSizeProblem, toAttemptSecret } from './attempt-secret.ts';
import { KEYS_SOON_MS, type KeyOptions, NO_KEYS, PodKeys } from './keys.ts';
import { readNotes, wantedNote, withAnnotations } from './notes.ts';
import { OrphanedPods, removeAttemptPods } from './orphaned-pods.ts';
import { outcomeWithoutPod, type PodOutcome } from './outcome.ts';
import { PendingStarts } from './pending-starts.ts';
import { blobKey, findAttemptPlace, isInputInBlobStore } from './place.ts';
import { ATTEMPT } from './pod.ts';
import { type AttemptStart, PodAttemptRun, type PodAttemptRunDeps } from './pod-attempt-run.ts';
import type { PodCache } from './pod-cache.ts';
import { readProgress } from './progress.ts';
import { formatNotices, scriptLog } from './script-log.ts';
import { WarmPool } from './warm-pool.ts';

interface RunnerDeps extends PodAttemptRunDeps, KeyOptions {
  /** Namespace of attempts without a service. */
  readonly namespace: string;
}

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** Runs attempts as pods. Every manager of the cluster can observe and stop them; the one that starts an attempt drives it. */
export class KubernetesRunner implements Runner {
  readonly #deps: RunnerDeps;
  readonly #podCache: PodCache;
  readonly #usage: PodUsage;
  readonly #runs = new Map<string, PodAttemptRun>();
  readonly #orphans: OrphanedPods;
  readonly #closed = new AbortController();
  /** Aborted when another manager leads: this one then stops driving its attempts. */
  #term = new AbortController();
  readonly #starts: PendingStarts;
  readonly standby: WarmPool;

  constructor(deps: RunnerDeps) {
    this.#deps = deps;
    this.#podCache = deps.podCache;
    this.#usage = new PodUsage(deps.api);
    this.#starts = new PendingStarts(this.#closed.signal, deps.report);
    this.#orphans = new OrphanedPods(deps, (name) => this.#runs.has(name), this.#closed.signal);
    this.standby = new WarmPool(deps, this.#closed.signal);
    void this.#podCache.open();
  }

  async start(attempt: Attempt): Promise<void> {
    const { name } = attempt;
    if (!NAME.test(name)) throw new TypeError(`${JSON.stringify(name)} is no name of an attempt`);
    if (this.#runs.has(name)) return;
    const namespace = attempt.traits?.namespace ?? this.#deps.namespace;
    const term = this.#term.signal;
    await this.#starts.once(name, async (off) => {
      try {
        await this.#starts.retryWhileUnavailable(() => this.#tryToBegin(attempt, namespace, term), off);
      } catch (error) {
        // Without a record nothing else would remove the input. After a change of leader the next one may need it.
        const { blobs, report } = this.#deps;
        if (isInputInBlobStore(attempt) && !term.aborted) await blobs.remove(blobKey(namespace, name)).catch(report);
        throw error;
      }
    });
  }

  async #tryToBegin(attempt: Attempt, namespace: string, term: AbortSignal): Promise<void> {
    const { api } = this.#deps;
    if (term.aborted || this.#closed.signal.aborted) throw notStarted(attempt);
    await this.#podCache.open();
    const known = this.#podCache.secrets.get(attempt.name);
    if (known && readNotes(known).end) return;
    const keys = new PodKeys(attempt, namespace, this.#deps);
    const made = known ? 'exists' : await this.#makeRecord(attempt, namespace, keys);
    const secret =
      made === 'exists'
        ? await readObject<SecretObject>(api, SECRET, { metadata: { name: attempt.name, namespace } })
        : made;
    if (!secret) return this.#tryToBegin(attempt, namespace, term);
    if (secret.metadata.labels?.[ATTEMPT] !== attempt.name) throw foreign(secret);
    this.#podCache.secrets.put(secret);
    if (readNotes(secret).end) return;
    if (term.aborted) throw notStarted(attempt);
    this.#drive(secret, { attempt, keys, fresh: made !== 'exists' });
  }

  async #makeRecord(attempt: Attempt, namespace: string, keys: PodKeys): Promise<Stored<SecretObject> | 'exists'> {
    const { api, blobs, stagingOptions } = this.#deps;
    const { input, name } = attempt;
    const [place, stores] = await Promise.all([
      findAttemptPlace(attempt, namespace, api),
      keys.firstWithin(KEYS_SOON_MS),
      input.kind === 'bytes' &&
        isInputInBlobStore(attempt) &&
        blobs.put(blobKey(namespace, name, 'input'), input.bytes),
    ]);
    const given = stores ?? NO_KEYS;
    const excess = secretSizeProblem(attempt, given, stagingOptions);
    if (excess !== undefined) throw new StoreError('too-large', excess);
    const pod = fitsWarmPod(attempt, given, stagingOptions) ? this.standby.choose(attempt) : undefined;
    return createObject(api, SECRET, toAttemptSecret(attempt, place, given, stagingOptions, pod));
  }

  async *observe(name: string): AsyncGenerator<Observation, undefined> {
    await this.#requireRecord(name);
    let last: Observation | undefined;
    while (!this.#closed.signal.aborted) {
      const changed = this.#podCache.nextChange(name);
      const seen = this.#observation(name);
      if (phaseRank(seen) >= phaseRank(last) && !isDeepStrictEqual(seen, last)) {
        last = seen;
        yield seen;
      }
      if (seen.phase === 'ended') return;
      await changed;
    }
  }

  #observation(name: string): Observation {
    const secret = this.#podCache.secrets.get(name);
    if (!secret) return ended(outcomeWithoutPod({ timeout: 0, memory: 0 }, Date.now()));
    const { end, began } = readNotes(secret);
    if (end) return ended(end);
    const pod = this.#podCache.pods.get(name);
    if (!pod) return { phase: 'preparing', message: this.#runs.get(name)?.message ?? 'waits to be taken up again' };
    const { hindrance: _, ...progress } = readProgress(pod);
    return progress.phase === 'preparing' || began === undefined ? progress : { ...progress, startedAt: began };
  }

  async stop(name: string, reason: StopReason): Promise<void> {
    // A start that is still being retried has no record that could be stopped.
    this.#starts.cancel(name);
    const secret = NAME.test(name) ? await this.#podCache.find(name) : undefined;
    if (!secret || this.#closed.signal.aborted) return;
    const wanted = {
      outcome: 'stopped',
      reason: 'Stopped',
      message: `it was stopped: ${reason}`,
      at: Date.now(),
    } as const;
    const written = await updateObject<SecretObject>(this.#deps.api, SECRET, secret, (there) => {
      const { end, wanted: earlier } = readNotes(there);
      return end || earlier ? undefined : withAnnotations(there, wantedNote(wanted));
    });
    if (!written) return this.#podCache.secrets.drop(secret);
    this.#podCache.secrets.put(written);
    if (readNotes(written).end) return;
    if (!this.#runs.has(name)) this.#drive(written);
    for await (const seen of this.observe(name)) if (seen.phase === 'ended') return;
  }

  async *logs(name: string, options: LogOptions): AsyncGenerator<Uint8Array, undefined> {
    await this.#requireRecord(name);
    const left = new AbortController();
    const signals = [left.signal, this.#closed.signal, ...(options.signal ? [options.signal] : [])];
    const signal = AbortSignal.any(signals);
    try {
      let last = NEWLINE;
      for await (const chunk of scriptLog(name, { ...options, signal }, this.#deps)) {
        last = chunk.at(-1) ?? last;
        yield chunk;
      }
      const end = options.follow ? await this.#untilEnded(name, signal) : this.#outcome(name);
      const notices = end && formatNotices(end, options, last !== NEWLINE);
      if (notices && notices.length > 0) yield notices;
    } finally {
      left.abort();
    }
  }

  async answer(name: string): Promise<Readable> {
    const secret = await this.#requireRecord(name);
    const { metadata } = secret;
    const end = this.#outcome(name) ?? (await this.#fetchOutcome(secret));
    if (!end) throw new StoreError('conflict', `attempt ${name} has no answer yet: it has not ended`);
    const { blobs } = this.#deps;
    const put = end.outcome === 'succeeded' && end.answered;
    const packed = put ? await blobs.get(blobKey(metadata.namespace ?? '', name, 'answer')) : undefined;
    if (packed) return packed;
    const options = { timestamps: false, follow: false, signal: this.#closed.signal };
    return Readable.from(scriptLog(name, options, this.#deps), { objectMode: false });
  }

  /** Whether the cache has a record of this attempt. */
  async has(name: string): Promise<boolean> {
    await this.#podCache.open();
    return this.#podCache.secrets.get(name) !== undefined;
  }

  async list(): Promise<string[]> {
    await this.#podCache.open();
    return this.#podCache.secrets.names();
  }

  async forget(name: string): Promise<void> {
    const { api, blobs } = this.#deps;
    const secret = NAME.test(name) ? await this.#podCache.find(name) : undefined;
    if (!secret) return;
    if (!readNotes(secret).end)
      throw new StoreError('conflict', `attempt ${name} cannot be forgotten: it has not ended`);
    await this.#runs.get(name)?.over;
    await removeAttemptPods(secret, api);
    await blobs.remove(blobKey(secret.metadata.namespace ?? '', name));
    // The record is removed last: until then the rest of the attempt can be found.
    await removeObject(api, SECRET, secret, { anyVersion: true });
    this.#podCache.secrets.drop(secret);
  }

  usage(): Usage {
    return this.#usage.get();
  }

  /** Another manager drives the attempts from now on. Observing and stopping still work here. */
  standDown(): void {
    this.standby.standDown();
    this.#term.abort();
    this.#term = new AbortController();
    this.#starts.cancelAll();
    for (const course of this.#runs.values()) course.detach();
    this.#runs.clear();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.standDown();
    await this.#podCache.close();
  }

  /** Called when the record or the pod of an attempt has changed. */
  onAttemptChanged(name: string): void {
    this.#orphans.check(name);
  }

  #drive(secret: Stored<SecretObject>, begun?: AttemptStart): void {
    // The runner was closed in the meantime: nothing would detach this run.
    if (this.#closed.signal.aborted) return;
    const { name } = secret.metadata;
    const course = new PodAttemptRun(secret, begun, this.#deps);
    this.#runs.set(name, course);
    void this.#follow(name, course);
    this.#podCache.wake(name);
  }

  async #follow(name: string, course: PodAttemptRun): Promise<void> {
    await course.over;
    if (this.#runs.get(name) === course) this.#runs.delete(name);
  }

  async #requireRecord(name: string): Promise<Stored<SecretObject>> {
    const secret = NAME.test(name) ? await this.#podCache.find(name) : undefined;
    if (!secret) throw new StoreError('absent', `there is no attempt ${name} here`);
    return secret;
  }

  /** Reads the outcome from the server: another manager may have written it, and the watch may not have delivered it yet. */
  async #fetchOutcome(secret: Stored<SecretObject>): Promise<PodOutcome | undefined> {
    const there = await readObject<SecretObject>(this.#deps.api, SECRET, secret);
    if (there?.metadata.uid === secret.metadata.uid) this.#podCache.secrets.put(there);
    return this.#outcome(secret.metadata.name);
  }

  #outcome(name: string): PodOutcome | undefined {
    const secret = this.#podCache.secrets.get(name);
    return secret && readNotes(secret).end;
  }

  async #untilEnded(name: string, signal: AbortSignal): Promise<PodOutcome | undefined> {
    const aborted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    while (!signal.aborted) {
      const changed = this.#podCache.nextChange(name);
      const end = this.#outcome(name);
      if (end || !this.#podCache.secrets.get(name)) return end;
      await Promise.race([changed, aborted]);
    }
    return undefined;
  }
}

const NEWLINE = 0x0a;

/** Phases never go back: stage-out may have ended while the container of the script is still ending. */
const ORDER: readonly Observation['phase'][] = ['preparing', 'running', 'uploading', 'ended'];

const phaseRank = (seen: Observation | undefined) => (seen ? ORDER.indexOf(seen.phase) : -1);

function ended({ answered: _, notices: __, ...end }: PodOutcome): Ended {
  return end;
}

const notStarted = ({ name }: Attempt) =>
  new StoreError('unavailable', `attempt ${name} was not started: this manager stops, or another one leads`);

function foreign({ metadata: { name, namespace } }: Stored<SecretObject>): StoreError {
  return new StoreError(
    'conflict',
    `the Secret "${name}" in namespace ${namespace} is in the way of an attempt of that name: remove it`,
  );
}

const POD_METRICS: KubeKind = { apiVersion: 'metrics.k8s.io/v1beta1', kind: 'PodMetrics', plural: 'pods' };

/** Maximum age of the usage. The metrics server itself asks the nodes every 15 s. */
const FRESH_MS = 15_000;

interface PodMetrics extends KubeObject {
  readonly containers?: readonly { readonly usage?: { readonly cpu?: string; readonly memory?: string } }[];
}

/** The usage of the pods of all attempts, from the metrics server. Zero if the cluster has none. */
class PodUsage {
  readonly #api: Api;
  #last: Usage = { cpu: 0, memory: 0 };
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(api: Api) {
    this.#api = api;
  }

  /** The last known usage. It is refreshed in the background for the next call. */
  get(): Usage {
    if (performance.now() - this.#askedAt > FRESH_MS) {
      this.#askedAt = performance.now();
      void this.#ask();
    }
    return this.#last;
  }

  async #ask(): Promise<void> {
    try {
      const { items } = await this.#api.list<PodMetrics>(POD_METRICS, {}, { labelSelector: ATTEMPT });
      this.#last = total(items);
    } catch {
      this.#last = { cpu: 0, memory: 0 };
    }
  }
}

function total(pods: readonly PodMetrics[]): Usage {
  const usages = pods.flatMap(({ containers = [] }) => containers.map(({ usage }) => usage));
  return {
    cpu: usages.reduce((sum, usage) => sum + (millicores(usage?.cpu ?? '') ?? 0), 0),
    memory: usages.reduce((sum, usage) => sum + (bytes(usage?.memory ?? '') ?? 0), 0),
  };
}
