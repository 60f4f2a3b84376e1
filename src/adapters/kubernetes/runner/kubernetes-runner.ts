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
import { createObject, removeObject } from '../client/writes.ts';
import { excessOf, fitsWaiting, secretOf } from './attempt-secret.ts';
import type { Begun } from './begun.ts';
import { change, read } from './change.ts';
import { KEYS_SOON_MS, type KeyOptions, NO_KEYS, PodKeys } from './keys.ts';
import { attemptPlace } from './make-pod.ts';
import { noted, notesOf, wantedNote } from './notes.ts';
import { Orphans, removePods } from './orphans.ts';
import { endWithout, type PodOutcome } from './outcome.ts';
import { isShelved, shelfKey } from './place.ts';
import { ATTEMPT } from './pod.ts';
import { PodAttemptRun, type PodAttemptRunDeps } from './pod-attempt-run.ts';
import type { PodCache } from './pod-cache.ts';
import { WarmPool } from './pool.ts';
import { progressOf } from './progress.ts';
import { noticesOf, scriptLog } from './script-log.ts';
import { Starts } from './starts.ts';

interface RunnerDeps extends PodAttemptRunDeps, KeyOptions {
  /** Where attempts go that are of no service. */
  readonly namespace: string;
}

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** Runs attempts as pods. Every manager of the cluster can read, follow and stop them; who starts one drives it. */
export class KubernetesRunner implements Runner {
  readonly #deps: RunnerDeps;
  readonly #picture: PodCache;
  readonly #usage: PodUsage;
  readonly #courses = new Map<string, PodAttemptRun>();
  readonly #orphans: Orphans;
  readonly #closed = new AbortController();
  /** As long as this manager drives what it starts. */
  #term = new AbortController();
  readonly #starts: Starts;
  readonly standby: WarmPool;

  constructor(deps: RunnerDeps) {
    this.#deps = deps;
    this.#picture = deps.picture;
    this.#usage = new PodUsage(deps.api);
    this.#starts = new Starts(this.#closed.signal, deps.report);
    this.#orphans = new Orphans(deps, (name) => this.#courses.has(name), this.#closed.signal);
    this.standby = new WarmPool(deps, this.#closed.signal);
    void this.#picture.open();
  }

  async start(attempt: Attempt): Promise<void> {
    const { name } = attempt;
    if (!NAME.test(name)) throw new TypeError(`${JSON.stringify(name)} is no name of an attempt`);
    if (this.#courses.has(name)) return;
    const namespace = attempt.traits?.namespace ?? this.#deps.namespace;
    const term = this.#term.signal;
    await this.#starts.once(name, async (off) => {
      try {
        await this.#starts.untilAvailable(() => this.#tryToBegin(attempt, namespace, term), off);
      } catch (error) {
        // Nobody else would: without a record nothing is found of it. Who leads next may need it.
        const { shelf, report } = this.#deps;
        if (isShelved(attempt) && !term.aborted) await shelf.remove(shelfKey(namespace, name)).catch(report);
        throw error;
      }
    });
  }

  async #tryToBegin(attempt: Attempt, namespace: string, term: AbortSignal): Promise<void> {
    const { api } = this.#deps;
    if (term.aborted || this.#closed.signal.aborted) throw notStarted(attempt);
    await this.#picture.open();
    const known = this.#picture.secrets.get(attempt.name);
    if (known && notesOf(known).end) return;
    const keys = new PodKeys(attempt, namespace, this.#deps);
    const made = known ? 'exists' : await this.#makeRecord(attempt, namespace, keys);
    const secret =
      made === 'exists' ? await read<SecretObject>(api, SECRET, { metadata: { name: attempt.name, namespace } }) : made;
    if (!secret) return this.#tryToBegin(attempt, namespace, term);
    if (secret.metadata.labels?.[ATTEMPT] !== attempt.name) throw foreign(secret);
    this.#picture.secrets.put(secret);
    if (notesOf(secret).end) return;
    if (term.aborted) throw notStarted(attempt);
    this.#take(secret, { attempt, keys, fresh: made !== 'exists' });
  }

  async #makeRecord(attempt: Attempt, namespace: string, keys: PodKeys): Promise<Stored<SecretObject> | 'exists'> {
    const { api, shelf, habits } = this.#deps;
    const { input, name } = attempt;
    const [place, stores] = await Promise.all([
      attemptPlace(attempt, namespace, api),
      keys.soon(KEYS_SOON_MS),
      input.kind === 'bytes' && isShelved(attempt) && shelf.put(shelfKey(namespace, name, 'input'), input.bytes),
    ]);
    const given = stores ?? NO_KEYS;
    const excess = excessOf(attempt, given, habits);
    if (excess !== undefined) throw new StoreError('too-large', excess);
    const pod = fitsWaiting(attempt, given, habits) ? this.standby.choose(attempt) : undefined;
    return createObject(api, SECRET, secretOf(attempt, place, given, habits, pod));
  }

  async *observe(name: string): AsyncGenerator<Observation, undefined> {
    await this.#known(name);
    let last: Observation | undefined;
    while (!this.#closed.signal.aborted) {
      const changed = this.#picture.change(name);
      const seen = this.#observation(name);
      if (rankOf(seen) >= rankOf(last) && !isDeepStrictEqual(seen, last)) {
        last = seen;
        yield seen;
      }
      if (seen.phase === 'ended') return;
      await changed;
    }
  }

  #observation(name: string): Observation {
    const secret = this.#picture.secrets.get(name);
    if (!secret) return ended(endWithout({ timeout: 0, memory: 0 }, Date.now()));
    const { end, began } = notesOf(secret);
    if (end) return ended(end);
    const pod = this.#picture.pods.get(name);
    if (!pod) return { phase: 'preparing', message: this.#courses.get(name)?.message ?? 'waits to be taken up again' };
    const { hindrance: _, ...progress } = progressOf(pod);
    return progress.phase === 'preparing' || began === undefined ? progress : { ...progress, startedAt: began };
  }

  async stop(name: string, reason: StopReason): Promise<void> {
    // One that cannot be begun now has nothing yet that could be stopped.
    this.#starts.callOff(name);
    const secret = NAME.test(name) ? await this.#picture.find(name) : undefined;
    if (!secret || this.#closed.signal.aborted) return;
    const wanted = {
      outcome: 'stopped',
      reason: 'Stopped',
      message: `it was stopped: ${reason}`,
      at: Date.now(),
    } as const;
    const written = await change<SecretObject>(this.#deps.api, SECRET, secret, (there) => {
      const { end, wanted: earlier } = notesOf(there);
      return end || earlier ? undefined : noted(there, wantedNote(wanted));
    });
    if (!written) return this.#picture.secrets.drop(secret);
    this.#picture.secrets.put(written);
    if (notesOf(written).end) return;
    if (!this.#courses.has(name)) this.#take(written);
    for await (const seen of this.observe(name)) if (seen.phase === 'ended') return;
  }

  async *logs(name: string, options: LogOptions): AsyncGenerator<Uint8Array, undefined> {
    await this.#known(name);
    const left = new AbortController();
    const signals = [left.signal, this.#closed.signal, ...(options.signal ? [options.signal] : [])];
    const signal = AbortSignal.any(signals);
    try {
      let last = NEWLINE;
      for await (const chunk of scriptLog(name, { ...options, signal }, this.#deps)) {
        last = chunk.at(-1) ?? last;
        yield chunk;
      }
      const end = options.follow ? await this.#endOf(name, signal) : this.#noted(name);
      const notices = end && noticesOf(end, options, last !== NEWLINE);
      if (notices && notices.length > 0) yield notices;
    } finally {
      left.abort();
    }
  }

  async answer(name: string): Promise<Readable> {
    const secret = await this.#known(name);
    const { metadata } = secret;
    const end = this.#noted(name) ?? (await this.#notedByNow(secret));
    if (!end) throw new StoreError('conflict', `attempt ${name} has no answer yet: it has not ended`);
    const { shelf } = this.#deps;
    const put = end.outcome === 'succeeded' && end.answered;
    const packed = put ? await shelf.get(shelfKey(metadata.namespace ?? '', name, 'answer')) : undefined;
    if (packed) return packed;
    const options = { timestamps: false, follow: false, signal: this.#closed.signal };
    return Readable.from(scriptLog(name, options, this.#deps), { objectMode: false });
  }

  /** As far as is known here: is it one of these? */
  async has(name: string): Promise<boolean> {
    await this.#picture.open();
    return this.#picture.secrets.get(name) !== undefined;
  }

  async list(): Promise<string[]> {
    await this.#picture.open();
    return this.#picture.secrets.names();
  }

  async forget(name: string): Promise<void> {
    const { api, shelf } = this.#deps;
    const secret = NAME.test(name) ? await this.#picture.find(name) : undefined;
    if (!secret) return;
    if (!notesOf(secret).end) throw new StoreError('conflict', `attempt ${name} cannot be forgotten: it has not ended`);
    await this.#courses.get(name)?.over;
    await removePods(secret, api);
    await shelf.remove(shelfKey(secret.metadata.namespace ?? '', name));
    // Last: as long as it is there, whatever is left of the attempt is found.
    await removeObject(api, SECRET, secret, { anyVersion: true });
    this.#picture.secrets.drop(secret);
  }

  usage(): Usage {
    return this.#usage.get();
  }

  /** Another manager drives what runs from now on; to read, follow and stop goes on here. */
  standDown(): void {
    this.standby.rest();
    this.#term.abort();
    this.#term = new AbortController();
    this.#starts.callAllOff();
    for (const course of this.#courses.values()) course.letGo();
    this.#courses.clear();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.standDown();
    await this.#picture.close();
  }

  /** Something has changed in this attempt. */
  watched(name: string): void {
    this.#orphans.look(name);
  }

  #take(secret: Stored<SecretObject>, begun?: Begun): void {
    // What was on its way when this was closed: nobody would let go of it any more.
    if (this.#closed.signal.aborted) return;
    const { name } = secret.metadata;
    const course = new PodAttemptRun(secret, begun, this.#deps);
    this.#courses.set(name, course);
    void this.#follow(name, course);
    this.#picture.wake(name);
  }

  async #follow(name: string, course: PodAttemptRun): Promise<void> {
    await course.over;
    if (this.#courses.get(name) === course) this.#courses.delete(name);
  }

  async #known(name: string): Promise<Stored<SecretObject>> {
    const secret = NAME.test(name) ? await this.#picture.find(name) : undefined;
    if (!secret) throw new StoreError('absent', `there is no attempt ${name} here`);
    return secret;
  }

  /** Another manager has written that the job has ended, which may have come here before what ended it. */
  async #notedByNow(secret: Stored<SecretObject>): Promise<PodOutcome | undefined> {
    const there = await read<SecretObject>(this.#deps.api, SECRET, secret);
    if (there?.metadata.uid === secret.metadata.uid) this.#picture.secrets.put(there);
    return this.#noted(secret.metadata.name);
  }

  #noted(name: string): PodOutcome | undefined {
    const secret = this.#picture.secrets.get(name);
    return secret && notesOf(secret).end;
  }

  async #endOf(name: string, signal: AbortSignal): Promise<PodOutcome | undefined> {
    const aborted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    while (!signal.aborted) {
      const changed = this.#picture.change(name);
      const end = this.#noted(name);
      if (end || !this.#picture.secrets.get(name)) return end;
      await Promise.race([changed, aborted]);
    }
    return undefined;
  }
}

const NEWLINE = 0x0a;

/** What is seen never goes back: stage-out may have ended while the container of its script still does. */
const ORDER: readonly Observation['phase'][] = ['preparing', 'running', 'uploading', 'ended'];

const rankOf = (seen: Observation | undefined) => (seen ? ORDER.indexOf(seen.phase) : -1);

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

/** How old what is said may be. The metrics server itself asks the nodes every 15 s. */
const FRESH_MS = 15_000;

interface PodMetrics extends KubeObject {
  readonly containers?: readonly { readonly usage?: { readonly cpu?: string; readonly memory?: string } }[];
}

/** What the pods of all attempts use, as far as the cluster has a metrics server; otherwise nothing is known. */
class PodUsage {
  readonly #api: Api;
  #last: Usage = { cpu: 0, memory: 0 };
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(api: Api) {
    this.#api = api;
  }

  /** As it was known last. It is asked for again in the background, for whoever asks next. */
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
