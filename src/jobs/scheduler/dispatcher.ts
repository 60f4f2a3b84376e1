import { setTimeout as pause } from 'node:timers/promises';
import { advance, isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import { isAway, type StopReason } from '../../ports/index.ts';
import { attemptName } from '../attempt/attempt-name.ts';
import { drive, untilAvailable } from '../attempt/run.ts';
import { forgetOriginStore } from '../attempt/store-access.ts';
import { changeJob } from '../change-job.ts';
import { placementModeFor } from '../intake/submit.ts';
import {
  type DelegationRoles,
  type DispatcherOptions,
  type Jobs,
  jobKeyText as nameOf,
  type PlacementMode,
  type Scheduler,
  type Waiter,
} from '../jobs.ts';
import { JobQueue, type Waiting } from './queue.ts';

interface Driven {
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
  readonly #room: JobQueue;
  /** What is being seen through, by key; the value says why it is to be ended, if it is. */
  readonly #driven = new Map<string, Driven>();
  readonly #waiting = new Map<string, ((record: JobRecord | undefined) => void)[]>();
  readonly #stopping = new AbortController();
  #ends: (() => void) | undefined;
  #roles: DelegationRoles = {};

  constructor(jobs: DispatcherOptions) {
    this.#jobs = jobs;
    this.#room = new JobQueue({
      ...jobs,
      begin: (waiting) => this.#drive(waiting),
      explain: (key, message) => this.#inBackground(key, this.#explain(key, message)),
      heldLong: (key) => this.#inBackground(key, this.#lookAtHeld(key)),
    });
  }

  /** How many wait for room that is ours to give. */
  get waiting(): number {
    return this.#room.size;
  }

  get running(): number {
    return this.#driven.size;
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
    this.#ends = this.#jobs.capacity.onRoom(() => this.#room.refill());
    this.#room.fill();
  }

  /** Starts nothing any more. What runs goes on without us. */
  stop(): void {
    this.#stopping.abort();
    this.#ends?.();
    this.#room.close();
    for (const listeners of this.#waiting.values()) for (const tell of listeners) tell(undefined);
    this.#waiting.clear();
  }

  enqueue(job: Waiter, mode: PlacementMode = 'local'): void {
    const key = { service: job.service, id: job.id };
    if (this.#driven.has(nameOf(job))) return;
    const { delegation } = this.#roles;
    if (mode === 'any' && delegation) return delegation.consider(key, mode);
    this.#room.enter(job);
    if (mode !== 'local' && this.#room.waitsForRoom(key)) delegation?.consider(key, mode);
  }

  begin({ service, id, owner, demand }: Waiter): void {
    const key = { service, id };
    if (this.#driven.has(nameOf(key))) return;
    this.#room.leave(key);
    this.#drive({ key, owner, demand });
  }

  withdraw(key: JobKey): void {
    this.#unline(key);
  }

  async cancel(key: JobKey, reason: StopReason): Promise<void> {
    const record = await requestEnd(key, reason, this.#jobs);
    this.#unline(key);
    if (record && isFinal(record.state)) this.#cancelled(record);
    const driven = this.#driven.get(nameOf(key));
    if (!driven) return;
    driven.stop ??= reason;
    const attempt = record?.attempts.at(-1);
    if (attempt) await this.#jobs.runner.stop(attempt.name, reason);
  }

  async ended(key: JobKey): Promise<JobRecord | undefined> {
    const { promise, resolve } = Promise.withResolvers<JobRecord | undefined>();
    const name = nameOf(key);
    this.#waiting.set(name, [...(this.#waiting.get(name) ?? []), resolve]);
    const record = await this.#jobs.store.get(key);
    if (!record || isFinal(record.state) || this.#stopping.signal.aborted) this.#answer(name, record);
    return promise;
  }

  notify(record: JobRecord): void {
    this.#answer(nameOf(record), record);
  }

  /** A job that somebody else has accepted, or left in the middle. */
  async resume(record: JobRecord): Promise<void> {
    const isLeft = record.trigger === 'run' && !this.#jobs.isAwaited?.(record);
    const stop = isLeft ? 'caller-left' : wantedEnd(record);
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
    const driven = this.#driven.get(nameOf(record));
    if (state !== 'queued') this.#unline(record);
    else if (!driven) this.#room.follow(record);
    if (state === 'cancelled') this.#cancelled(record);
    else if (isFinal(state)) this.notify(record);
    if (driven) this.#end(record, driven, wantedEnd(record));
    // Another manager, which thought that it leads, began it, or saw it through to here.
    else if (state === 'running') this.#inBackground(record, this.#resumeAttempt(record, wantedEnd(record)));
    else if (state === 'committing' && taken) this.#inBackground(record, this.#reportResultIfPending(record));
    if (!taken) this.#roles.delegation?.onChanged(record);
  }

  /** Its record is gone. */
  onRemoved(key: JobKey): void {
    this.#unline(key);
    this.#answer(nameOf(key), undefined);
    const driven = this.#driven.get(nameOf(key));
    if (driven) this.#end(key, driven, 'service-removed');
    this.#roles.delegation?.onRemoved(key);
  }

  async #placementModeFor(record: JobRecord): Promise<PlacementMode> {
    if (!this.#roles.delegation) return 'local';
    try {
      const found = await this.#jobs.services.get(record.service);
      return found ? placementModeFor(found.service, record) : 'local';
    } catch (problem) {
      if (isAway(problem)) throw problem;
      // A definition that nobody can read: it fails when its turn comes, and says so.
      return 'local';
    }
  }

  /** As if there were no room here. What was heard of it meanwhile may have been missed. */
  async #lookAtHeld(key: JobKey): Promise<void> {
    const record = await this.#jobs.store.get(key);
    if (record?.state !== 'queued') return this.#room.leave(key);
    if (record.held === undefined) return this.#room.follow(record);
    const mode = await this.#placementModeFor(record);
    if (mode === 'overflow' && this.#room.isHeld(key)) this.#roles.delegation?.consider(key, mode);
  }

  #unline(key: JobKey): void {
    this.#room.leave(key);
    if (!this.#driven.has(nameOf(key))) this.#room.over(key);
  }

  #drive(waiting: Waiting): void {
    this.#driven.set(nameOf(waiting.key), {});
    this.#inBackground(waiting.key, this.#begin(waiting));
  }

  async #begin(waiting: Waiting): Promise<void> {
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
      this.#leave(key);
      await pause(RETRY_MS, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
      // It may have been written all the same, and be seen through by now.
      if (!this.#driven.has(nameOf(key))) this.#room.enterAgain(waiting, false);
      throw error;
    }
    if (record) return this.#see(record, undefined);
    this.#leave(key);
    // What was heard meanwhile of who was quicker, and may be about to stop, was taken for our own.
    const other = await store.get(key);
    if (other?.state === 'queued' && other.held !== undefined) this.#room.enterAgain(waiting, true);
    if (other) this.onChanged(other);
  }

  /**
   * Goes on with an attempt that somebody has begun. What is known of it may be older than its end, and to start what is
   * over and forgotten would run it twice: only who can still write on the record goes on.
   */
  async #resumeAttempt(seen: JobRecord, stop: StopReason | undefined): Promise<void> {
    const name = nameOf(seen);
    if (this.#driven.has(name)) return;
    this.#driven.set(name, { ...(stop && { stop }) });
    const { demand, trigger } = seen;
    this.#jobs.capacity.hold(name, demand);
    if (trigger === 'run') this.#room.hold(seen);
    const { store } = this.#jobs;
    const isSame = (job: JobRecord) => job.state === 'running' && job.epoch === seen.epoch;
    const write = () => changeJob(seen, store, (job) => (isSame(job) ? { message: job.message } : undefined), seen);
    let record: JobRecord | undefined;
    try {
      record = await untilAvailable(write, seen, this.#jobs, this.#stopping.signal);
    } finally {
      if (!record) this.#leave(seen);
    }
    if (record) await this.#see(record, stop ?? wantedEnd(record));
    else this.#room.fill();
  }

  /** Sees an attempt through to its end, or until this manager stops. */
  async #see(record: JobRecord, stop: StopReason | undefined): Promise<void> {
    const name = nameOf(record);
    const attempt = record.attempts.at(-1)?.name;
    const driven = { ...this.#driven.get(name), ...(stop && { stop }), ...(attempt !== undefined && { attempt }) };
    this.#driven.set(name, driven);
    try {
      const last = await drive(
        record,
        driven,
        { ...this.#jobs, hostedJobs: this.#roles.hostedJobs },
        this.#stopping.signal,
      );
      if (last?.state === 'committing') this.#inBackground(last, this.#reportResult(last));
      else if (last) this.notify(last);
      else this.#answer(name, undefined);
    } finally {
      this.#leave(record);
      this.#room.fill();
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
    if (record?.state === 'committing' && !this.#driven.has(nameOf(seen))) await this.#reportResult(record);
  }

  #cancelled(record: JobRecord): void {
    this.notify(record);
    this.#inBackground(record, forgetOriginStore(record, this.#jobs.secrets));
    if (!concernsOthers(record)) return;
    if (record.taken) this.#roles.hostedJobs?.reportCancelled(record);
    else this.#roles.delegation?.onCancelled(record);
  }

  /** Somebody wants what is being seen through to end. */
  #end(key: JobKey, driven: Driven, reason: StopReason | undefined): void {
    if (!reason || driven.stop) return;
    driven.stop = reason;
    if (driven.attempt !== undefined) this.#inBackground(key, this.#jobs.runner.stop(driven.attempt, reason));
  }

  #leave(key: JobKey): void {
    this.#driven.delete(nameOf(key));
    this.#jobs.capacity.release(nameOf(key));
    this.#room.over(key);
  }

  async #explain(key: JobKey, message: string): Promise<void> {
    await changeJob(key, this.#jobs.store, (job) =>
      job.state === 'queued' && job.message !== message ? { message } : undefined,
    );
  }

  #answer(name: string, record: JobRecord | undefined): void {
    const listeners = this.#waiting.get(name) ?? [];
    this.#waiting.delete(name);
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
export async function requestEnd(
  key: JobKey,
  reason: StopReason,
  { store, now, place }: Pick<Jobs, 'store' | 'now' | 'place'>,
): Promise<JobRecord | undefined> {
  const message = STOPPED[reason];
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
function wantedEnd({
  cancelRequested,
  state,
  held,
}: Pick<JobRecord, 'cancelRequested' | 'state' | 'held'>): StopReason | undefined {
  if (cancelRequested) return reasonBy(cancelRequested.reason);
  return state === 'running' && held !== undefined ? 'evicted' : undefined;
}

/** Has another cluster a job that somebody has ended, or was it taken from one that has not heard of that? */
function concernsOthers({ taken, handIn, placement, epoch, message, timeline }: JobRecord): boolean {
  if (!taken) return placement?.epoch === epoch;
  const isEndedHere = !handIn && timeline.at(-1)?.reason === 'Cancelled';
  return isEndedHere && reasonBy(message) !== 'superseded';
}

const STOPPED: Readonly<Record<StopReason, string>> = {
  cancelled: 'it was cancelled',
  'caller-left': 'whoever called did not wait for the answer',
  'service-removed': 'its service was removed',
  superseded: 'another attempt took its place',
  evicted: 'the cluster took back the leave to run it',
};

/** Records keep the sentence alone: who takes a job up finds the reason by it. */
function reasonBy(message: string): StopReason {
  const found = Object.entries(STOPPED).find(([, sentence]) => sentence === message);
  return (found?.[0] as StopReason | undefined) ?? 'cancelled';
}
