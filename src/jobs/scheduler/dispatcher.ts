import { setTimeout as pause } from 'node:timers/promises';
import { advance, isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import { isUnavailable, type StopReason } from '../../ports/index.ts';
import { attemptName } from '../attempt/attempt-name.ts';
import { runAttempt, untilAvailable } from '../attempt/run.ts';
import { removeOriginStore } from '../attempt/store-access.ts';
import { changeJob } from '../change-job.ts';
import { placementModeFor } from '../intake/submit.ts';
import {
  type DelegationRoles,
  type DispatcherOptions,
  type Jobs,
  jobKeyText as nameOf,
  type PlacementMode,
  type SchedulableJob,
  type Scheduler,
} from '../jobs.ts';
import { JobQueue, type QueuedJob } from './queue.ts';

interface RunningJob {
  stop?: StopReason;
  attempt?: string;
}

/** How long to wait before a job is tried again whose record could not be written. */
const RETRY_MS = 2_000;

/**
 * Starts jobs when there is room for them, and sees each one through. All it knows is in the records: after a crash the
 * next one takes up what waits and what runs, and nothing that was begun is begun again.
 */
export class Dispatcher implements Scheduler {
  readonly #jobs: DispatcherOptions;
  readonly #queue: JobQueue;
  /** What is being seen through, by key; the value says why it is to be ended, if it is. */
  readonly #running = new Map<string, RunningJob>();
  readonly #endListeners = new Map<string, ((record: JobRecord | undefined) => void)[]>();
  readonly #stopping = new AbortController();
  #unsubscribe: (() => void) | undefined;
  #roles: DelegationRoles = {};

  constructor(jobs: DispatcherOptions) {
    this.#jobs = jobs;
    this.#queue = new JobQueue({
      ...jobs,
      start: (waiting) => this.#start(waiting),
      setMessage: (key, message) => this.#inBackground(key, this.#writeMessage(key, message)),
      onSuspendedLong: (key) => this.#inBackground(key, this.#considerSuspended(key)),
    });
  }

  /** How many wait for room that is ours to give. */
  get waiting(): number {
    return this.#queue.size;
  }

  get running(): number {
    return this.#running.size;
  }

  /** Must be called before `start`. Without it jobs run on this cluster only. */
  connect(roles: DelegationRoles): void {
    this.#roles = roles;
  }

  /** Takes up what an earlier run has left, and begins; until the signal. */
  async lead(roles: DelegationRoles, until: AbortSignal): Promise<void> {
    this.connect(roles);
    until.addEventListener('abort', () => this.stop(), { once: true });
    await this.start();
  }

  async start(): Promise<void> {
    for await (const record of this.#jobs.store.unfinished()) await this.resume(record);
    this.open();
  }

  /** Begins without looking for what was left. */
  open(): void {
    this.#unsubscribe = this.#jobs.capacity.onFreed(() => this.#queue.onCapacityFreed());
    this.#queue.startFitting();
  }

  /** Starts nothing any more. What runs goes on without us. */
  stop(): void {
    this.#stopping.abort();
    this.#unsubscribe?.();
    this.#queue.close();
    for (const listeners of this.#endListeners.values()) for (const tell of listeners) tell(undefined);
    this.#endListeners.clear();
  }

  enqueue(job: SchedulableJob, mode: PlacementMode = 'local'): void {
    const key = { service: job.service, id: job.id };
    if (this.#running.has(nameOf(job))) return;
    const { delegation } = this.#roles;
    if (mode === 'any' && delegation) return delegation.consider(key, mode);
    this.#queue.add(job);
    if (mode !== 'local' && this.#queue.waitsForRoom(key)) delegation?.consider(key, mode);
  }

  begin({ service, id, owner, demand }: SchedulableJob): void {
    const key = { service, id };
    if (this.#running.has(nameOf(key))) return;
    this.#queue.remove(key);
    this.#start({ key, owner, demand });
  }

  withdraw(key: JobKey): void {
    this.#dequeue(key);
  }

  async cancel(key: JobKey, reason: StopReason): Promise<void> {
    const record = await requestStop(key, reason, this.#jobs);
    this.#dequeue(key);
    if (record && isFinal(record.state)) this.#onCancelled(record);
    const driven = this.#running.get(nameOf(key));
    if (!driven) return;
    driven.stop ??= reason;
    const attempt = record?.attempts.at(-1);
    if (attempt) await this.#jobs.runner.stop(attempt.name, reason);
  }

  async waitUntilEnded(key: JobKey): Promise<JobRecord | undefined> {
    const { promise, resolve } = Promise.withResolvers<JobRecord | undefined>();
    const name = nameOf(key);
    this.#endListeners.set(name, [...(this.#endListeners.get(name) ?? []), resolve]);
    const record = await this.#jobs.store.get(key);
    if (!record || isFinal(record.state) || this.#stopping.signal.aborted) this.#notifyEnd(name, record);
    return promise;
  }

  notify(record: JobRecord): void {
    this.#notifyEnd(nameOf(record), record);
  }

  /** A job that somebody else has accepted, or left in the middle. */
  async resume(record: JobRecord): Promise<void> {
    const isLeft = record.trigger === 'run' && !this.#jobs.isCallerWaiting?.(record);
    const stop = isLeft ? 'caller-left' : requestedStop(record);
    if (record.state === 'running') this.#inBackground(record, this.#resumeAttempt(record, stop));
    else if (record.state === 'committing' && record.taken) this.#inBackground(record, this.#reportResult(record));
    else if (record.state === 'committing') this.#roles.delegation?.resume(record);
    else if (stop) await this.cancel(record, stop);
    else if (record.state !== 'queued') this.#roles.delegation?.resume(record);
    else {
      this.enqueue(record, await this.#placementModeFor(record));
      if (record.taken) this.#roles.hostedJobs?.reportQueued(record, this.#stopping.signal);
    }
  }

  /** What has become of a job that was taken up or put in line, whoever wrote it. Again: nothing happens. */
  onChanged(record: JobRecord): void {
    const { state, taken } = record;
    const driven = this.#running.get(nameOf(record));
    if (state !== 'queued') this.#dequeue(record);
    else if (!driven) this.#queue.onChanged(record);
    if (state === 'cancelled') this.#onCancelled(record);
    else if (isFinal(state)) this.notify(record);
    if (driven) this.#stopAttempt(record, driven, requestedStop(record));
    // Another manager, which thought that it leads, began it, or saw it through to here.
    else if (state === 'running') this.#inBackground(record, this.#resumeAttempt(record, requestedStop(record)));
    else if (state === 'committing' && taken) this.#inBackground(record, this.#reportResultIfPending(record));
    if (!taken) this.#roles.delegation?.onChanged(record);
  }

  /** Its record is gone. */
  onRemoved(key: JobKey): void {
    this.#dequeue(key);
    this.#notifyEnd(nameOf(key), undefined);
    const driven = this.#running.get(nameOf(key));
    if (driven) this.#stopAttempt(key, driven, 'service-removed');
    this.#roles.delegation?.onRemoved(key);
  }

  async #placementModeFor(record: JobRecord): Promise<PlacementMode> {
    if (!this.#roles.delegation) return 'local';
    try {
      const found = await this.#jobs.services.get(record.service);
      return found ? placementModeFor(found.service, record) : 'local';
    } catch (problem) {
      if (isUnavailable(problem)) throw problem;
      // A definition that nobody can read: it fails when its turn comes, and says so.
      return 'local';
    }
  }

  /** As if there were no room here. What was heard of it meanwhile may have been missed. */
  async #considerSuspended(key: JobKey): Promise<void> {
    const record = await this.#jobs.store.get(key);
    if (record?.state !== 'queued') return this.#queue.remove(key);
    if (record.held === undefined) return this.#queue.onChanged(record);
    const mode = await this.#placementModeFor(record);
    if (mode === 'overflow' && this.#queue.isSuspended(key)) this.#roles.delegation?.consider(key, mode);
  }

  #dequeue(key: JobKey): void {
    this.#queue.remove(key);
    if (!this.#running.has(nameOf(key))) this.#queue.releaseCall(key);
  }

  #start(waiting: QueuedJob): void {
    this.#running.set(nameOf(waiting.key), {});
    this.#inBackground(waiting.key, this.#startAttempt(waiting));
  }

  async #startAttempt(waiting: QueuedJob): Promise<void> {
    const { store, now, place } = this.#jobs;
    const { key } = waiting;
    let record: JobRecord | undefined;
    try {
      record = await changeJob(key, store, (job) => {
        const epoch = job.epoch + 1;
        const started = { state: 'running', at: now(), reason: 'Started', message: 'there is room', place } as const;
        const attempts = [...job.attempts, { name: attemptName(job, epoch), epoch, place }];
        const may = job.state === 'queued' && job.held === undefined;
        return may ? advance(job, started, { epoch, attempts }) : undefined;
      });
    } catch (error) {
      this.#release(key);
      await pause(RETRY_MS, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
      // It may have been written all the same, and be seen through by now.
      if (!this.#running.has(nameOf(key))) this.#queue.requeue(waiting, false);
      throw error;
    }
    if (record) return this.#runAttempt(record, undefined);
    this.#release(key);
    // What was heard meanwhile of who was quicker, and may be about to stop, was taken for our own.
    const other = await store.get(key);
    if (other?.state === 'queued' && other.held !== undefined) this.#queue.requeue(waiting, true);
    if (other) this.onChanged(other);
  }

  /**
   * Goes on with an attempt that somebody has begun. What is known of it may be older than its end, and to start what is
   * over and forgotten would run it twice: only who can still write on the record goes on.
   */
  async #resumeAttempt(seen: JobRecord, stop: StopReason | undefined): Promise<void> {
    const name = nameOf(seen);
    if (this.#running.has(name)) return;
    this.#running.set(name, { ...(stop && { stop }) });
    const { demand, trigger } = seen;
    this.#jobs.capacity.hold(name, demand);
    if (trigger === 'run') this.#queue.addRunningCall(seen);
    const { store } = this.#jobs;
    const isSame = (job: JobRecord) => job.state === 'running' && job.epoch === seen.epoch;
    const write = () => changeJob(seen, store, (job) => (isSame(job) ? { message: job.message } : undefined), seen);
    let record: JobRecord | undefined;
    try {
      record = await untilAvailable(write, seen, this.#jobs, this.#stopping.signal);
    } finally {
      if (!record) this.#release(seen);
    }
    if (record) await this.#runAttempt(record, stop ?? requestedStop(record));
    else this.#queue.startFitting();
  }

  /** Sees an attempt through to its end, or until this manager stops. */
  async #runAttempt(record: JobRecord, stop: StopReason | undefined): Promise<void> {
    const name = nameOf(record);
    const attempt = record.attempts.at(-1)?.name;
    const driven = { ...this.#running.get(name), ...(stop && { stop }), ...(attempt !== undefined && { attempt }) };
    this.#running.set(name, driven);
    try {
      const last = await runAttempt(
        record,
        driven,
        { ...this.#jobs, hostedJobs: this.#roles.hostedJobs },
        this.#stopping.signal,
      );
      if (last?.state === 'committing') this.#inBackground(last, this.#reportResult(last));
      else if (last) this.notify(last);
      else this.#notifyEnd(name, undefined);
    } finally {
      this.#release(record);
      this.#queue.startFitting();
    }
  }

  /** A run for another cluster is over, and has no room here any more; its origin has to hear of it. */
  async #reportResult(record: JobRecord): Promise<void> {
    const { store, now, place } = this.#jobs;
    const end = await this.#roles.hostedJobs?.reportResult(record, this.#stopping.signal);
    if (!end) return;
    const write = () => changeJob(record, store, (job) => advance(job, { ...end, at: now(), place }));
    const last = await untilAvailable(write, record, this.#jobs, this.#stopping.signal);
    if (last) this.notify(last);
  }

  /** Unless that was done, by who wrote what was heard of. */
  async #reportResultIfPending(seen: JobRecord): Promise<void> {
    const record = await this.#jobs.store.get(seen);
    if (record?.state === 'committing' && !this.#running.has(nameOf(seen))) await this.#reportResult(record);
  }

  #onCancelled(record: JobRecord): void {
    this.notify(record);
    this.#inBackground(record, removeOriginStore(record, this.#jobs.secrets));
    if (!concernsOtherCluster(record)) return;
    if (record.taken) this.#roles.hostedJobs?.reportCancelled(record);
    else this.#roles.delegation?.onCancelled(record);
  }

  /** Somebody wants what is being seen through to end. */
  #stopAttempt(key: JobKey, driven: RunningJob, reason: StopReason | undefined): void {
    if (!reason || driven.stop) return;
    driven.stop = reason;
    if (driven.attempt !== undefined) this.#inBackground(key, this.#jobs.runner.stop(driven.attempt, reason));
  }

  #release(key: JobKey): void {
    this.#running.delete(nameOf(key));
    this.#jobs.capacity.release(nameOf(key));
    this.#queue.releaseCall(key);
  }

  async #writeMessage(key: JobKey, message: string): Promise<void> {
    await changeJob(key, this.#jobs.store, (job) =>
      job.state === 'queued' && job.message !== message ? { message } : undefined,
    );
  }

  #notifyEnd(name: string, record: JobRecord | undefined): void {
    const listeners = this.#endListeners.get(name) ?? [];
    this.#endListeners.delete(name);
    for (const tell of listeners) tell(record);
  }

  #inBackground({ service, id }: JobKey, work: Promise<void>): void {
    work.catch((problem: unknown) => this.#jobs.report(problem, { service, id }));
  }
}

/**
 * Writes down that a job is to end: one that waits has ended with that; one that runs is ended by whoever sees it through.
 * Resolves to the record that says so; undefined when there is nothing to be ended, or somebody has asked before.
 */
export async function requestStop(
  key: JobKey,
  reason: StopReason,
  { store, now, place }: Pick<Jobs, 'store' | 'now' | 'place'>,
): Promise<JobRecord | undefined> {
  const message = STOP_MESSAGES[reason];
  return changeJob(key, store, (job) => {
    if (isFinal(job.state) || job.state === 'committing' || job.cancelRequested) return undefined;
    const at = now();
    const ended = { state: 'cancelled', at, reason: 'Cancelled', message, place } as const;
    return job.state === 'running'
      ? { cancelRequested: { at, reason: message } }
      : advance(job, ended, { finishedAt: at });
  });
}

/** Why somebody wants a job that runs to end, or the cluster does; undefined when nobody does. */
function requestedStop({
  cancelRequested,
  state,
  held,
}: Pick<JobRecord, 'cancelRequested' | 'state' | 'held'>): StopReason | undefined {
  if (cancelRequested) return stopReasonFor(cancelRequested.reason);
  return state === 'running' && held !== undefined ? 'evicted' : undefined;
}

/** Has another cluster a job that somebody has ended, or was it taken from one that has not heard of that? */
function concernsOtherCluster({ taken, handIn, placement, epoch, message, timeline }: JobRecord): boolean {
  if (!taken) return placement?.epoch === epoch;
  const isEndedHere = !handIn && timeline.at(-1)?.reason === 'Cancelled';
  return isEndedHere && stopReasonFor(message) !== 'superseded';
}

const STOP_MESSAGES: Readonly<Record<StopReason, string>> = {
  cancelled: 'it was cancelled',
  'caller-left': 'whoever called did not wait for the answer',
  'service-removed': 'its service was removed',
  superseded: 'another attempt took its place',
  evicted: 'the cluster took back the leave to run it',
};

/** Records keep the sentence alone: who takes a job up finds the reason by it. */
function stopReasonFor(message: string): StopReason {
  const found = Object.entries(STOP_MESSAGES).find(([, sentence]) => sentence === message);
  return (found?.[0] as StopReason | undefined) ?? 'cancelled';
}
