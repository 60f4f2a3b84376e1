import { setTimeout as pause } from 'node:timers/promises';
import type { Cursor } from '../../lib/version.ts';
import { isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import { type JobStore, type StopReason, StoreError } from '../../ports/index.ts';
import {
  type DelegationRoles,
  type DispatcherOptions,
  jobKeyText,
  type PlacementMode,
  type Scheduler,
  type Waiter,
} from '../jobs.ts';
import { requestEnd } from './dispatcher.ts';
import { LeaderScheduler, type LeaderSchedulerOptions } from './leader-scheduler.ts';

type FollowerSchedulerOptions = DispatcherOptions & Pick<LeaderSchedulerOptions, 'callerWaits'>;

/**
 * The line of one of several managers of a cluster. Whoever leads starts jobs and sees them through; the others write down
 * what is to be done, and read what was. Nothing is told from one to the other but by the records.
 */
export class FollowerScheduler implements Scheduler {
  readonly #jobs: FollowerSchedulerOptions;
  readonly #waiting = new Map<string, { readonly key: JobKey; readonly tell: ((end?: JobRecord) => void)[] }>();
  /** Jobs that were let in while another leads, because there is room; until they begin or end. */
  readonly #promised = new Map<string, JobKey>();
  readonly #closing = new AbortController();
  #following: Promise<void> | undefined;
  #leading: LeaderScheduler | undefined;

  constructor(jobs: FollowerSchedulerOptions) {
    this.#jobs = jobs;
  }

  /** How many wait for room, as far as this manager is the one to start them. */
  get waiting(): number {
    return this.#leading?.waiting ?? 0;
  }

  get running(): number {
    return this.#leading?.running ?? 0;
  }

  /** Before anything else: from then on it hears of what others write. */
  async open(): Promise<void> {
    const follower = {
      heard: (key: JobKey, record: JobRecord | undefined) => this.#heard(key, record),
      missed: () => void this.#catchUp(),
      report: (problem: unknown) => this.#jobs.report(problem, EVERY),
    };
    const { over } = await followStore(this.#jobs.store, follower, this.#closing.signal);
    this.#following = over;
  }

  /** From now on this manager starts jobs and sees them through, until the signal. */
  async lead(roles: DelegationRoles, until: AbortSignal): Promise<void> {
    const cancel = (key: JobKey, reason: StopReason) => this.cancel(key, reason);
    const leading = new LeaderScheduler({ ...this.#jobs, cancel }, roles, until);
    // From here on rooms of that name are the leader's, who takes them for what is in the records.
    for (const name of this.#promised.keys()) this.#giveBack(name);
    this.#leading = leading;
    const end = () => {
      leading.stop();
      if (this.#leading === leading) this.#leading = undefined;
    };
    until.addEventListener('abort', end, { once: true });
    if (until.aborted) return end();
    await leading.begin();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#following;
    for (const name of this.#waiting.keys()) this.#answer(name, undefined);
  }

  enqueue(job: Waiter, mode?: PlacementMode): void {
    this.#leading?.enqueue(job, mode);
  }

  begin(job: Waiter): void {
    if (this.#leading) this.#leading.begins(job);
    else this.#promised.set(jobKeyText(job), { service: job.service, id: job.id });
  }

  withdraw(key: JobKey): void {
    this.#leading?.withdraw(key);
  }

  async cancel(key: JobKey, reason: StopReason): Promise<void> {
    const record = await requestEnd(key, reason, this.#jobs);
    if (record) this.#heard(key, record);
  }

  async ended(key: JobKey): Promise<JobRecord | undefined> {
    const { promise, resolve } = Promise.withResolvers<JobRecord | undefined>();
    const name = jobKeyText(key);
    const waiting = this.#waiting.get(name) ?? { key: { service: key.service, id: key.id }, tell: [] };
    waiting.tell.push(resolve);
    this.#waiting.set(name, waiting);
    const record = await this.#jobs.store.get(key);
    if (!record || isFinal(record.state) || this.#closing.signal.aborted) this.#answer(name, record);
    return promise;
  }

  notify(record: JobRecord): void {
    this.#heard(record, record);
  }

  #heard(key: JobKey, record: JobRecord | undefined): void {
    const name = jobKeyText(key);
    const isOver = !record || isFinal(record.state);
    if (isOver) this.#answer(name, record);
    if (record?.state !== 'queued') this.#giveBack(name);
    this.#leading?.hear(key, record);
  }

  /** What changed meanwhile was missed. */
  async #catchUp(): Promise<void> {
    try {
      await this.#leading?.catchUp();
      const waited = [...this.#waiting.values()].map(({ key }) => key);
      for (const key of [...waited, ...this.#promised.values()]) this.#heard(key, await this.#jobs.store.get(key));
    } catch (problem) {
      this.#jobs.report(problem, EVERY);
    }
  }

  #giveBack(name: string): void {
    if (this.#promised.delete(name)) this.#jobs.capacity.release(name);
  }

  #answer(name: string, record: JobRecord | undefined): void {
    const { tell = [] } = this.#waiting.get(name) ?? {};
    this.#waiting.delete(name);
    for (const each of tell) each(record);
  }
}

/** What concerns all jobs. */
const EVERY: JobKey = { service: '', id: '' };

interface StoreFollower {
  /** How a job is by now; without a record it is gone. May repeat. */
  heard(key: JobKey, record: JobRecord | undefined): void;
  /** Changes were missed: everything is to be looked at again. */
  missed(): void;
  report(problem: unknown): void;
}

/** Changes that are read at a time. */
const BATCH = 500;

/** How long to wait before a store that is away is asked again. */
const AGAIN_MS = 1_000;

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
        for (const { key, record } of items) follower.heard(key, record);
        if (items.length === 0) await rung;
      } catch (problem) {
        if (signal.aborted) return;
        if (problem instanceof StoreError && problem.code === 'expired') {
          cursor = (await store.changes({ limit: 1 }).catch(() => ({ cursor }))).cursor;
          follower.missed();
        } else follower.report(problem);
        await pause(AGAIN_MS, undefined, { signal, ref: false }).catch(() => undefined);
      }
    }
  } finally {
    signal.removeEventListener('abort', ring);
    ends();
  }
}
