import { changeJob } from '../../jobs/index.ts';
import { advance, type DecisionRecord, type JobKey, type JobProgress, type JobRecord } from '../../model/job/index.ts';
import type { OriginDeps } from './origin.ts';
import type { RemoteAttempts } from './remote-attempts.ts';
import { appendDecision, toQueued } from './transitions.ts';

export interface LocalFallbackDeps extends Pick<OriginDeps, 'store' | 'scheduler' | 'clock' | 'self'> {
  readonly attempts: RemoteAttempts;
}

/** The job at its origin: its record, and its place in the local queue. */
export class LocalFallback {
  readonly #key: JobKey;
  readonly #deps: LocalFallbackDeps;
  #isQueued: boolean;

  constructor(key: JobKey, isQueued: boolean, deps: LocalFallbackDeps) {
    this.#key = key;
    this.#isQueued = isQueued;
    this.#deps = deps;
  }

  get isQueued(): boolean {
    return this.#isQueued;
  }

  /** Changes the record if state and epoch are still those of `seen`; otherwise resolves to undefined. */
  async change(
    seen: JobRecord,
    change: (job: JobRecord) => Partial<JobProgress> | undefined,
  ): Promise<JobRecord | undefined> {
    const { store, attempts } = this.#deps;
    const isSame = (job: JobRecord) => job.state === seen.state && job.epoch === seen.epoch;
    const changed = await changeJob(this.#key, store, (job) => (isSame(job) ? change(job) : undefined), seen);
    if (changed) attempts.note(changed);
    return changed;
  }

  /** Makes the job wait at the origin, with a reason. False if the record has changed meanwhile. */
  async wait(
    record: JobRecord,
    { reason, message }: { readonly reason: string; readonly message: string },
    decision?: DecisionRecord,
  ): Promise<boolean> {
    const { clock, self } = this.#deps;
    const word = { at: clock.now(), reason, message, place: self.clusterId };
    if (record.state !== 'queued') {
      return (await this.change(record, (job) => toQueued(job, word, decision))) !== undefined;
    }
    // Do not write the same message again, except when the decision is now to run the job here.
    if (record.message === message && decision?.chosen === undefined) return true;
    if (reason === 'StaysHere') {
      // Add an entry to the timeline: no member is asked, so nothing else explains why.
      return (await this.change(record, (job) => toQueued({ ...job, state: 'offering' }, word))) !== undefined;
    }
    const changed = await this.change(record, (job) => ({
      message,
      ...(decision && { decisions: appendDecision(job, decision) }),
    }));
    return changed !== undefined;
  }

  async fail(record: JobRecord, reason: string, message: string): Promise<boolean> {
    const { clock, self, scheduler } = this.#deps;
    const at = clock.now();
    const word = { state: 'failed', at, reason, message, place: self.clusterId } as const;
    const failed = await this.change(record, (job) => advance(job, word, { finishedAt: at }));
    if (failed) scheduler.notify(failed);
    return failed !== undefined;
  }

  /** The job may start here as soon as there is free capacity. */
  enqueue(record: JobRecord): void {
    if (this.#isQueued) return;
    this.#isQueued = true;
    this.#deps.scheduler.enqueue(record, 'local');
  }

  withdraw(): void {
    this.#isQueued = false;
    this.#deps.scheduler.withdraw(this.#key);
  }
}
