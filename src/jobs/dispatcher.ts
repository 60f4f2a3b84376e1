import { setTimeout as pause } from 'node:timers/promises';
import type { JobKey, JobRecord, StopReason } from '../cluster/index.ts';
import { attemptName } from './attempt-name.ts';
import { changeJob } from './change-job.ts';
import { drive, untilAvailable } from './drive.ts';
import { type Elsewhere, type Jobs, type Line, roomName as nameOf, type Placing, type Waiter } from './jobs.ts';
import { placingOf } from './placing.ts';
import { FairQueue, type Waiting } from './queue.ts';
import { advance, isFinal } from './state.ts';

export interface DispatcherOptions extends Omit<Jobs, 'dispatcher'> {
  /** Told of what nobody waits for. */
  readonly report: (problem: unknown, key: JobKey) => void;
}

/** What it takes to see an attempt through. */
export interface Driving extends DispatcherOptions {
  readonly elsewhere: Elsewhere | undefined;
}

/** How long to wait before a job is tried again whose record could not be written. */
const RETRY_MS = 2_000;

/**
 * Starts jobs when there is room for them, and sees each one through. All it knows is in the records: after a crash the
 * next one takes up what waits and what runs, and nothing that was begun is begun again.
 */
export class Dispatcher implements Line {
  readonly #jobs: DispatcherOptions;
  readonly #queue = new FairQueue();
  /** What is being seen through, by key; the value says why it is to be ended, if it is. */
  readonly #driven = new Map<string, { stop?: StopReason }>();
  readonly #waiting = new Map<string, ((record: JobRecord | undefined) => void)[]>();
  readonly #stopping = new AbortController();
  #ends: (() => void) | undefined;
  #elsewhere: Elsewhere | undefined;

  constructor(jobs: DispatcherOptions) {
    this.#jobs = jobs;
  }

  /** How many wait for room. */
  get waiting(): number {
    return this.#queue.size;
  }

  get running(): number {
    return this.#driven.size;
  }

  /** Before it starts: jobs may run on other clusters. */
  joins(elsewhere: Elsewhere): void {
    this.#elsewhere = elsewhere;
  }

  /** Takes up what an earlier run has left, and begins. */
  async start(): Promise<void> {
    for await (const record of this.#jobs.store.unfinished()) await this.#takeUp(record);
    this.#ends = this.#jobs.capacity.onRoom(() => this.#pump());
    this.#pump();
  }

  /** Starts nothing any more. What runs goes on without us. */
  stop(): void {
    this.#stopping.abort();
    this.#ends?.();
    for (const listeners of this.#waiting.values()) for (const tell of listeners) tell(undefined);
    this.#waiting.clear();
  }

  enqueue(job: Waiter, placing: Placing = 'here'): void {
    const { service, id, owner, demand } = job;
    const key = { service, id };
    if (this.#driven.has(nameOf(job))) return;
    if (placing === 'anywhere' && this.#elsewhere) return this.#elsewhere.consider(key, placing);
    const refusal = this.#jobs.capacity.refusal(demand);
    // It would hold up everything of its owner for ever. It waits in its record, where it can be seen and cancelled.
    if (refusal !== undefined) this.#inBackground(job, this.#explain(job, refusal));
    else this.#queue.add({ key, owner, demand });
    this.#pump();
    if (placing !== 'here' && (refusal !== undefined || this.#queue.has(key))) this.#elsewhere?.consider(key, placing);
  }

  begin({ service, id, owner, demand }: Waiter): void {
    const key = { service, id };
    if (this.#driven.has(nameOf(key))) return;
    this.#driven.set(nameOf(key), {});
    this.#inBackground(key, this.#begin({ key, owner, demand }));
  }

  withdraw(key: JobKey): void {
    this.#queue.remove(key);
  }

  async cancel(key: JobKey, reason: StopReason): Promise<void> {
    const { store, runner, now, place } = this.#jobs;
    const message = STOPPED[reason];
    const record = await changeJob(key, store, (job) => {
      if (isFinal(job.state) || job.state === 'committing' || job.cancelRequested) return undefined;
      const at = now();
      const ended = { state: 'cancelled', at, reason: 'Cancelled', message, place } as const;
      return job.state === 'running'
        ? { cancelRequested: { at, reason: message } }
        : advance(job, ended, { finishedAt: at });
    });
    this.#queue.remove(key);
    if (record && isFinal(record.state)) {
      this.tell(record);
      if (isOthersToo(record, reason)) this.#elsewhere?.cancelled(record);
    }
    const driven = this.#driven.get(nameOf(key));
    if (!driven) return;
    driven.stop ??= reason;
    const attempt = record?.attempts.at(-1);
    if (attempt) await runner.stop(attempt.name, reason);
  }

  async ended(key: JobKey): Promise<JobRecord | undefined> {
    const { promise, resolve } = Promise.withResolvers<JobRecord | undefined>();
    const name = nameOf(key);
    this.#waiting.set(name, [...(this.#waiting.get(name) ?? []), resolve]);
    const record = await this.#jobs.store.get(key);
    if (!record || isFinal(record.state) || this.#stopping.signal.aborted) this.#answer(name, record);
    return promise;
  }

  tell(record: JobRecord): void {
    this.#answer(nameOf(record), record);
  }

  async #takeUp(record: JobRecord): Promise<void> {
    // Whoever called and waited for the answer is gone.
    const stop = record.trigger === 'run' ? 'caller-left' : record.cancelRequested ? 'cancelled' : undefined;
    if (record.state === 'running') {
      this.#jobs.capacity.hold(nameOf(record), record.demand);
      this.#inBackground(record, this.#see(record, stop));
    } else if (record.state === 'committing' && record.taken) this.#inBackground(record, this.#handIn(record));
    else if (record.state === 'committing') this.#elsewhere?.takeUp(record);
    else if (stop) await this.cancel(record, stop);
    else if (record.state !== 'queued') this.#elsewhere?.takeUp(record);
    else this.enqueue(record, await this.#placingOf(record));
  }

  async #placingOf(record: JobRecord): Promise<Placing> {
    const found = this.#elsewhere && (await this.#jobs.services.get(record.service));
    return found ? placingOf(found.service, record) : 'here';
  }

  #pump(): void {
    while (!this.#stopping.signal.aborted) {
      const next = this.#queue.take(({ key, demand }) => this.#jobs.capacity.reserve(nameOf(key), demand));
      if (!next) return;
      this.#driven.set(nameOf(next.key), {});
      this.#inBackground(next.key, this.#begin(next));
    }
  }

  async #begin(waiting: Waiting): Promise<void> {
    const { store, now, place } = this.#jobs;
    const { key } = waiting;
    let record: JobRecord | undefined;
    try {
      record = await changeJob(key, store, (job) => {
        const epoch = job.epoch + 1;
        const started = { state: 'running', at: now(), reason: 'Started', message: 'there is room', place } as const;
        const attempts = [...job.attempts, { name: attemptName(job.id, epoch), epoch, place }];
        return job.state === 'queued' ? advance(job, started, { epoch, attempts }) : undefined;
      });
    } catch (error) {
      this.#leave(key);
      await pause(RETRY_MS, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
      this.#queue.add(waiting);
      throw error;
    }
    if (record) await this.#see(record, undefined);
    else this.#leave(key);
  }

  /** Sees an attempt through to its end, or until this manager stops. */
  async #see(record: JobRecord, stop: StopReason | undefined): Promise<void> {
    const name = nameOf(record);
    const driven = { ...this.#driven.get(name), ...(stop && { stop }) };
    this.#driven.set(name, driven);
    try {
      const last = await drive(record, driven, { ...this.#jobs, elsewhere: this.#elsewhere }, this.#stopping.signal);
      if (last?.state === 'committing') this.#inBackground(last, this.#handIn(last));
      else if (last) this.tell(last);
      else this.#answer(name, undefined);
    } finally {
      this.#leave(record);
      this.#pump();
    }
  }

  /** A run for another cluster is over, and has no room here any more; its origin has to hear of it. */
  async #handIn(record: JobRecord): Promise<void> {
    const { store, now, place } = this.#jobs;
    const end = await this.#elsewhere?.handIn(record, this.#stopping.signal);
    if (!end) return;
    const write = () => changeJob(record, store, (job) => advance(job, { ...end, at: now(), place }));
    const last = await untilAvailable(write, record, this.#jobs, this.#stopping.signal);
    if (last) this.tell(last);
  }

  #leave(key: JobKey): void {
    this.#driven.delete(nameOf(key));
    this.#jobs.capacity.release(nameOf(key));
  }

  async #explain(key: JobKey, refusal: string): Promise<void> {
    await changeJob(key, this.#jobs.store, (job) =>
      job.state === 'queued' && job.message !== refusal ? { message: refusal } : undefined,
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

/** Does another cluster have it, or was it taken from one that does not know yet? */
const isOthersToo = ({ taken, placement, epoch }: JobRecord, reason: StopReason) =>
  taken ? reason !== 'superseded' : placement?.epoch === epoch;

const STOPPED: Readonly<Record<StopReason, string>> = {
  cancelled: 'it was cancelled',
  'caller-left': 'whoever called did not wait for the answer',
  'service-removed': 'its service was removed',
  superseded: 'another attempt took its place',
};
