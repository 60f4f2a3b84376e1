import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { Attempt, Ended } from '../../../model/job/index.ts';
import {
  type BlobStore,
  type LogOptions,
  type Observation,
  type Runner,
  type StopReason,
  StoreError,
  type Usage,
} from '../../../ports/index.ts';
import { LineUnstamper } from '../../../staging/index.ts';
import type { SecretObject, Stored } from '../client/kinds.ts';
import { blobKey, formatNotices, PendingStarts, type PodOutcome } from '../runner/index.ts';
import { KnativeCall, type KnativeCallDeps, PARTIAL_LOG } from './call.ts';
import type { CallRecords } from './call-records.ts';

export interface KnativeRunnerDeps {
  readonly records: CallRecords;
  readonly blobs: BlobStore;
  /** Absent if Knative is disabled; earlier calls are still known. */
  readonly calling?: KnativeCallDeps | undefined;
  readonly report: (problem: unknown) => void;
  readonly patienceMs?: number;
}

interface RunningCall {
  readonly call: KnativeCall;
  /** Resolves when its outcome is recorded. */
  readonly concluded: Promise<void>;
}

const NEWLINE = 0x0a;

/** How long another manager has to end its call before it counts as lost. It learns of the stop within moments, and its pod needs some seconds. */
const PATIENCE_MS = 20_000;

/** How often the log of another manager's call is read. */
const POLL_MS = 1_000;

/**
 * Runs attempts in the pods of Knative Services, which answer one call after the other. The manager that starts a call is
 * connected to its pod. If that manager dies, the script ends too, and the next manager finds by the record that the call was
 * begun and is lost. Other managers read the output from the blob store, a few seconds late while the call runs.
 */
export class KnativeRunner implements Runner {
  readonly #deps: KnativeRunnerDeps;
  readonly #records: CallRecords;
  readonly #calls = new Map<string, RunningCall>();
  readonly #closed = new AbortController();
  readonly #starts: PendingStarts;
  /** Changes when another manager leads: a start from before does not continue. */
  #term = Symbol('term');

  constructor(deps: KnativeRunnerDeps) {
    this.#deps = deps;
    this.#records = deps.records;
    this.#starts = new PendingStarts(this.#closed.signal, deps.report);
    void this.#records.open();
  }

  /** Whether the cache has a record of this attempt. */
  has(name: string): boolean {
    return this.#calls.has(name) || this.#records.get(name) !== undefined;
  }

  /** The same; on a miss the server is asked. */
  async exists(name: string): Promise<boolean> {
    return this.has(name) || (await this.#records.find(name)) !== undefined;
  }

  async start(attempt: Attempt): Promise<void> {
    if (!this.#calls.has(attempt.name)) await this.#starts.once(attempt.name, () => this.#begin(attempt));
  }

  async #begin(attempt: Attempt): Promise<void> {
    const { calling } = this.#deps;
    if (!calling) throw new TypeError(`attempt ${attempt.name} cannot be called: nothing answers calls here`);
    const namespace = attempt.traits?.namespace ?? '';
    const term = this.#term;
    const start = randomUUID();
    const { record, fresh } = await this.#starts.retryWhileUnavailable(() =>
      this.#records.begin(attempt, namespace, start),
    );
    // The new leader may have ended it, or will.
    if (fresh && term === this.#term) this.#follow(record, new KnativeCall(attempt, namespace, calling));
    else await this.#endAsLost(record);
  }

  /**
   * Ends a call that another manager has begun as lost, because this one has no connection to its pod. Returns whether there
   * is a call of that name.
   */
  async endAbandoned(name: string): Promise<boolean> {
    const record = await this.#starts.retryWhileUnavailable(() => this.#records.find(name));
    if (record && !this.#calls.has(name)) await this.#endAsLost(record);
    return record !== undefined;
  }

  async #endAsLost(record: Stored<SecretObject>): Promise<void> {
    if (!this.#records.outcome(record.metadata.name))
      await this.#starts.retryWhileUnavailable(() => this.#records.end(record, lost()));
  }

  #follow(record: Stored<SecretObject>, call: KnativeCall): void {
    const concluded = this.#conclude(record, call).catch(this.#deps.report);
    this.#calls.set(record.metadata.name, { call, concluded });
  }

  async #conclude(record: Stored<SecretObject>, call: KnativeCall): Promise<void> {
    const end = await call.over;
    try {
      await this.#starts.retryWhileUnavailable(() => this.#records.end(record, end));
      const { namespace = '', name } = record.metadata;
      await Promise.all(['input', PARTIAL_LOG].map((what) => this.#deps.blobs.remove(blobKey(namespace, name, what))));
    } finally {
      this.#calls.delete(record.metadata.name);
    }
  }

  async *observe(name: string): AsyncGenerator<Observation, undefined> {
    await this.#requireRecord(name);
    let last: Observation | undefined;
    while (!this.#closed.signal.aborted) {
      const { call, concluded } = this.#calls.get(name) ?? {};
      const news = Promise.race([this.#records.nextChange(name), ...(call ? [call.nextObservation, concluded] : [])]);
      const seen = this.#observation(name, call);
      if (seen !== last) yield seen;
      last = seen;
      if (seen.phase === 'ended') return;
      await news;
    }
  }

  #observation(name: string, call: KnativeCall | undefined): Observation {
    if (!this.#records.get(name)) return ended(lost());
    const end = this.#records.outcome(name);
    return end ? ended(end) : (call?.observation ?? CALLED_BY_ANOTHER);
  }

  async stop(name: string, reason: StopReason): Promise<void> {
    const underWay = this.#calls.get(name);
    if (!underWay) return this.#untilEndedElsewhere(name);
    underWay.call.stop(reason);
    for await (const seen of this.observe(name)) if (seen.phase === 'ended') return;
  }

  /** Waits until the manager that sent the call has ended it. If none does, the call is recorded as lost. */
  async #untilEndedElsewhere(name: string): Promise<void> {
    const record = await this.#records.find(name);
    if (!record || this.#records.outcome(name)) return;
    const patience = AbortSignal.any([this.#closed.signal, AbortSignal.timeout(this.#deps.patienceMs ?? PATIENCE_MS)]);
    await this.#untilEnded(name, patience);
    await this.#records.refresh(name);
    if (this.#records.get(name) && !this.#closed.signal.aborted) await this.#endAsLost(record);
  }

  async *logs(name: string, options: LogOptions): AsyncGenerator<Uint8Array, undefined> {
    const { timestamps, follow } = options;
    await this.#requireRecord(name);
    const signal = AbortSignal.any([this.#closed.signal, ...(options.signal ? [options.signal] : [])]);
    const unstamping = new LineUnstamper();
    let last = NEWLINE;
    for await (const bytes of this.#stamped(name, follow, signal)) {
      const shown = timestamps ? bytes : unstamping.add(bytes);
      last = shown.at(-1) ?? last;
      if (shown.length > 0) yield shown;
    }
    const end = this.#records.outcome(name);
    const notices = end && formatNotices(end, options, last !== NEWLINE);
    if (notices && notices.length > 0) yield notices;
  }

  /** The streamed output, and after the end the rest from the blob store. */
  async *#stamped(name: string, follow: boolean, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    let given = 0;
    const underWay = this.#calls.get(name);
    const told = underWay ? underWay.call.log.read(follow, signal) : this.#partialLog(name, follow, signal);
    for await (const chunk of this.#records.outcome(name) ? [] : told) {
      given += chunk.length;
      yield chunk;
    }
    if (follow) await this.#untilEnded(name, signal);
    if (this.#records.outcome(name)) yield* this.#finalLog(name, given);
  }

  /** The output so far that the calling manager stores for others. */
  async *#partialLog(name: string, follow: boolean, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    for (let given = 0; ; ) {
      for await (const chunk of this.#readBlob(name, PARTIAL_LOG, given)) {
        given += chunk.length;
        yield chunk;
      }
      if (!follow) return;
      await pause(POLL_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted || !this.#records.get(name) || this.#records.outcome(name)) return;
    }
  }

  /** The complete output; if the calling manager died, what it had stored so far. */
  async *#finalLog(name: string, given: number): AsyncGenerator<Uint8Array> {
    let some = false;
    for await (const chunk of this.#readBlob(name, 'log', given)) {
      some = true;
      yield chunk;
    }
    if (!some) yield* this.#readBlob(name, PARTIAL_LOG, given);
  }

  async *#readBlob(name: string, what: string, given: number): AsyncGenerator<Uint8Array> {
    const { namespace = '' } = (await this.#requireRecord(name)).metadata;
    const log = await this.#deps.blobs.get(blobKey(namespace, name, what));
    let skip = given;
    for await (const chunk of log ?? []) {
      const bytes: Uint8Array = chunk;
      const rest = bytes.subarray(Math.min(skip, bytes.length));
      skip -= bytes.length - rest.length;
      if (rest.length > 0) yield rest;
    }
  }

  async #untilEnded(name: string, signal: AbortSignal): Promise<void> {
    const left = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    while (!signal.aborted) {
      const changed = this.#records.nextChange(name);
      if (this.#records.outcome(name) || !this.#records.get(name)) return;
      await Promise.race([changed, left]);
    }
  }

  async answer(name: string): Promise<Readable> {
    const { metadata } = await this.#requireRecord(name);
    // Another manager may have recorded the outcome, and the watch may not have delivered it yet.
    if (!this.#records.outcome(name)) await this.#records.refresh(name);
    const end = this.#records.outcome(name);
    if (!end) throw new StoreError('conflict', `attempt ${name} has no answer yet: it has not ended`);
    const put = end.outcome === 'succeeded' && end.answered;
    const packed = put ? await this.#deps.blobs.get(blobKey(metadata.namespace ?? '', name, 'answer')) : undefined;
    return packed ?? Readable.from(this.#plain(name), { objectMode: false });
  }

  async *#plain(name: string): AsyncGenerator<Uint8Array> {
    const unstamping = new LineUnstamper();
    for await (const bytes of this.#finalLog(name, 0)) yield unstamping.add(bytes);
  }

  async list(): Promise<string[]> {
    await this.#records.open();
    return this.#records.names();
  }

  async forget(name: string): Promise<void> {
    const record = await this.#records.find(name);
    if (!record) return;
    if (!this.#records.outcome(name))
      throw new StoreError('conflict', `attempt ${name} cannot be forgotten: it has not ended`);
    await this.#deps.blobs.remove(blobKey(record.metadata.namespace ?? '', name));
    await this.#records.remove(record);
  }

  /** Zero: the usage of Knative's pods does not depend on calls and counts like that of other pods. */
  usage(): Usage {
    return { cpu: 0, memory: 0 };
  }

  /**
   * Another manager leads: calls that end within the patience are recorded normally, the others end as lost. No call is begun
   * any more.
   */
  async standDown(patienceMs = 0): Promise<void> {
    this.#term = Symbol('term');
    if (patienceMs > 0) await this.#concluded(patienceMs);
    for (const { call } of this.#calls.values()) call.detach();
  }

  async #concluded(patienceMs: number): Promise<void> {
    const enough = new AbortController();
    const { signal } = enough;
    const calls = [...this.#calls.values()].map(({ concluded }) => concluded);
    await Promise.race([Promise.all(calls), pause(patienceMs, undefined, { signal }).catch(() => undefined)]);
    enough.abort();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.standDown();
    await this.#records.close();
  }

  async #requireRecord(name: string): Promise<Stored<SecretObject>> {
    const record = await this.#records.find(name);
    if (!record) throw new StoreError('absent', `there is no attempt ${name} here`);
    return record;
  }
}

const CALLED_BY_ANOTHER: Observation = { phase: 'preparing', message: 'another manager has called' };

const lost = (): PodOutcome => ({
  phase: 'ended',
  outcome: 'failed',
  reason: 'Lost',
  message: 'the manager that had called is gone, and its script with it',
  finishedAt: Date.now(),
});

function ended({ answered: _, notices: __, ...end }: PodOutcome): Ended {
  return end;
}
