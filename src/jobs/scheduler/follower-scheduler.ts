import { setTimeout as pause } from 'node:timers/promises';
import type { Cursor } from '../../lib/version.ts';
import { isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import { type JobStore, type StopReason, StoreError } from '../../ports/index.ts';
import {
  type DelegationRoles,
  type DispatcherOptions,
  jobKeyText,
  type PlacementMode,
  type SchedulableJob,
  type Scheduler,
} from '../jobs.ts';
import { LeaderScheduler, type LeaderSchedulerOptions } from './leader-scheduler.ts';
import { requestStop } from './stop-request.ts';

type FollowerSchedulerOptions = DispatcherOptions & Pick<LeaderSchedulerOptions, 'callerTimeout'>;

/**
 * The scheduler of one of several managers of a cluster. The leader starts jobs and runs their attempts. The other managers
 * write requests into the job records and follow their changes; managers communicate through the records only.
 */
export class FollowerScheduler implements Scheduler {
  readonly #jobs: FollowerSchedulerOptions;
  readonly #endListeners = new Map<
    string,
    { readonly key: JobKey; readonly listeners: ((end?: JobRecord) => void)[] }
  >();
  /** Hosted jobs that this manager accepted while another one leads: it keeps their room reserved until they start or end. */
  readonly #reserved = new Map<string, JobKey>();
  readonly #closing = new AbortController();
  #following: Promise<void> | undefined;
  #leader: LeaderScheduler | undefined;

  constructor(jobs: FollowerSchedulerOptions) {
    this.#jobs = jobs;
  }

  /** Jobs that are queued for room here. 0 while this manager does not lead. */
  get waiting(): number {
    return this.#leader?.waiting ?? 0;
  }

  get running(): number {
    return this.#leader?.running ?? 0;
  }

  /** Starts to follow the changes that all managers write. Must be called first. */
  async open(): Promise<void> {
    const follower = {
      onChanged: (key: JobKey, record: JobRecord | undefined) => this.#onChanged(key, record),
      onMissed: () => void this.#resync(),
      report: (problem: unknown) => this.#jobs.report(problem, ALL_JOBS),
    };
    const { over } = await followStore(this.#jobs.store, follower, this.#closing.signal);
    this.#following = over;
  }

  /** Makes this manager start jobs and run their attempts, until the signal aborts. */
  async lead(roles: DelegationRoles, until: AbortSignal): Promise<void> {
    const cancel = (key: JobKey, reason: StopReason) => this.cancel(key, reason);
    const leading = new LeaderScheduler({ ...this.#jobs, cancel }, roles, until);
    // From here on the leader reserves room under these names, for what the records say.
    for (const name of this.#reserved.keys()) this.#releaseReserved(name);
    this.#leader = leading;
    const end = () => {
      leading.stop();
      if (this.#leader === leading) this.#leader = undefined;
    };
    until.addEventListener('abort', end, { once: true });
    if (until.aborted) return end();
    await leading.start();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#following;
    for (const name of this.#endListeners.keys()) this.#notifyEnd(name, undefined);
  }

  enqueue(job: SchedulableJob, mode?: PlacementMode): void {
    this.#leader?.enqueue(job, mode);
  }

  begin(job: SchedulableJob): void {
    if (this.#leader) this.#leader.begin(job);
    else this.#reserved.set(jobKeyText(job), { service: job.service, id: job.id });
  }

  withdraw(key: JobKey): void {
    this.#leader?.withdraw(key);
  }

  async cancel(key: JobKey, reason: StopReason): Promise<void> {
    const record = await requestStop(key, reason, this.#jobs);
    if (record) this.#onChanged(key, record);
  }

  async waitUntilEnded(key: JobKey): Promise<JobRecord | undefined> {
    const { promise, resolve } = Promise.withResolvers<JobRecord | undefined>();
    const name = jobKeyText(key);
    const waiting = this.#endListeners.get(name) ?? { key: { service: key.service, id: key.id }, listeners: [] };
    waiting.listeners.push(resolve);
    this.#endListeners.set(name, waiting);
    const record = await this.#jobs.store.get(key);
    if (!record || isFinal(record.state) || this.#closing.signal.aborted) this.#notifyEnd(name, record);
    return promise;
  }

  notify(record: JobRecord): void {
    this.#onChanged(record, record);
  }

  #onChanged(key: JobKey, record: JobRecord | undefined): void {
    const name = jobKeyText(key);
    const isOver = !record || isFinal(record.state);
    if (isOver) this.#notifyEnd(name, record);
    if (record?.state !== 'queued') this.#releaseReserved(name);
    this.#leader?.onChanged(key, record);
  }

  /** Changes were missed: re-reads all records that matter to this manager. */
  async #resync(): Promise<void> {
    try {
      await this.#leader?.resync();
      const waited = [...this.#endListeners.values()].map(({ key }) => key);
      for (const key of [...waited, ...this.#reserved.values()]) this.#onChanged(key, await this.#jobs.store.get(key));
    } catch (problem) {
      this.#jobs.report(problem, ALL_JOBS);
    }
  }

  #releaseReserved(name: string): void {
    if (this.#reserved.delete(name)) this.#jobs.capacity.release(name);
  }

  #notifyEnd(name: string, record: JobRecord | undefined): void {
    const { listeners = [] } = this.#endListeners.get(name) ?? {};
    this.#endListeners.delete(name);
    for (const notify of listeners) notify(record);
  }
}

/** Stands for all jobs in error reports. */
const ALL_JOBS: JobKey = { service: '', id: '' };

interface StoreFollower {
  /** The current record of a job; undefined if it was removed. The same record may be reported again. */
  onChanged(key: JobKey, record: JobRecord | undefined): void;
  /** Changes were missed: the follower must read everything again. */
  onMissed(): void;
  report(problem: unknown): void;
}

/** Changes per read. */
const BATCH = 500;

/** Pause before an unavailable store is read again. */
const RETRY_MS = 1_000;

/** Reports every change of every job, until the signal aborts. Resolves once it follows; `over` resolves when it has ended. */
async function followStore(
  store: Pick<JobStore, 'changes' | 'onChange'>,
  follower: StoreFollower,
  signal: AbortSignal,
): Promise<{ readonly over: Promise<void> }> {
  const { cursor } = await store.changes({ limit: 1 });
  return { over: follow(store, cursor, follower, signal) };
}

async function follow(
  store: Pick<JobStore, 'changes' | 'onChange'>,
  begin: Cursor,
  follower: StoreFollower,
  signal: AbortSignal,
): Promise<void> {
  let wake = () => {};
  const wakeUp = () => wake();
  const ends = store.onChange(wakeUp);
  signal.addEventListener('abort', wakeUp, { once: true });
  let cursor = begin;
  try {
    while (!signal.aborted) {
      // Set up the wake-up before reading, so that a change during the read is not missed.
      const { promise: woken, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      try {
        const { items, cursor: next } = await store.changes({ since: cursor, limit: BATCH });
        if (signal.aborted) return;
        cursor = next;
        for (const { key, record } of items) follower.onChanged(key, record);
        if (items.length === 0) await woken;
      } catch (problem) {
        if (signal.aborted) return;
        if (problem instanceof StoreError && problem.code === 'expired') {
          cursor = (await store.changes({ limit: 1 }).catch(() => ({ cursor }))).cursor;
          follower.onMissed();
        } else follower.report(problem);
        await pause(RETRY_MS, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  } finally {
    signal.removeEventListener('abort', wakeUp);
    ends();
  }
}
