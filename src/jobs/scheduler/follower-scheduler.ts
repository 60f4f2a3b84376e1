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
import { requestStop } from './dispatcher.ts';
import { LeaderScheduler, type LeaderSchedulerOptions } from './leader-scheduler.ts';

type FollowerSchedulerOptions = DispatcherOptions & Pick<LeaderSchedulerOptions, 'callerTimeout'>;

/**
 * The line of one of several managers of a cluster. Whoever leads starts jobs and sees them through; the others write down
 * what is to be done, and read what was. Nothing is told from one to the other but by the records.
 */
export class FollowerScheduler implements Scheduler {
  readonly #jobs: FollowerSchedulerOptions;
  readonly #endListeners = new Map<string, { readonly key: JobKey; readonly tell: ((end?: JobRecord) => void)[] }>();
  /** Jobs that were let in while another leads, because there is room; until they begin or end. */
  readonly #reserved = new Map<string, JobKey>();
  readonly #closing = new AbortController();
  #following: Promise<void> | undefined;
  #leader: LeaderScheduler | undefined;

  constructor(jobs: FollowerSchedulerOptions) {
    this.#jobs = jobs;
  }

  /** How many wait for room, as far as this manager is the one to start them. */
  get waiting(): number {
    return this.#leader?.waiting ?? 0;
  }

  get running(): number {
    return this.#leader?.running ?? 0;
  }

  /** Before anything else: from then on it hears of what others write. */
  async open(): Promise<void> {
    const follower = {
      onChanged: (key: JobKey, record: JobRecord | undefined) => this.#onChanged(key, record),
      onMissed: () => void this.#resync(),
      report: (problem: unknown) => this.#jobs.report(problem, ALL_JOBS),
    };
    const { over } = await followStore(this.#jobs.store, follower, this.#closing.signal);
    this.#following = over;
  }

  /** From now on this manager starts jobs and sees them through, until the signal. */
  async lead(roles: DelegationRoles, until: AbortSignal): Promise<void> {
    const cancel = (key: JobKey, reason: StopReason) => this.cancel(key, reason);
    const leading = new LeaderScheduler({ ...this.#jobs, cancel }, roles, until);
    // From here on rooms of that name are the leader's, who takes them for what is in the records.
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
    const waiting = this.#endListeners.get(name) ?? { key: { service: key.service, id: key.id }, tell: [] };
    waiting.tell.push(resolve);
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

  /** What changed meanwhile was missed. */
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
    const { tell = [] } = this.#endListeners.get(name) ?? {};
    this.#endListeners.delete(name);
    for (const each of tell) each(record);
  }
}

/** What concerns all jobs. */
const ALL_JOBS: JobKey = { service: '', id: '' };

interface StoreFollower {
  /** How a job is by now; without a record it is gone. May repeat. */
  onChanged(key: JobKey, record: JobRecord | undefined): void;
  /** Changes were missed: everything is to be looked at again. */
  onMissed(): void;
  report(problem: unknown): void;
}

/** Changes that are read at a time. */
const BATCH = 500;

/** How long to wait before a store that is away is asked again. */
const RETRY_MS = 1_000;

/** Tells of every change of every job, whoever made it, until the signal. Resolves to the end of it once it has begun. */
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
  const ring = () => wake();
  const ends = store.onChange(ring);
  signal.addEventListener('abort', ring, { once: true });
  let cursor = begin;
  try {
    while (!signal.aborted) {
      // Before reading: what happens while it is read is not slept through.
      const { promise: rung, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      try {
        const { items, cursor: next } = await store.changes({ since: cursor, limit: BATCH });
        if (signal.aborted) return;
        cursor = next;
        for (const { key, record } of items) follower.onChanged(key, record);
        if (items.length === 0) await rung;
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
    signal.removeEventListener('abort', ring);
    ends();
  }
}
