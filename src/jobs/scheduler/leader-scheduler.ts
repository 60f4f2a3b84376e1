import { isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import { isUnavailable, type StopReason } from '../../ports/index.ts';
import { untilAvailable } from '../attempt/run.ts';
import {
  type DelegationRoles,
  type DispatcherOptions,
  jobKeyText,
  type PlacementMode,
  type SchedulableJob,
} from '../jobs.ts';
import { Dispatcher } from './dispatcher.ts';

export interface LeaderSchedulerOptions extends DispatcherOptions {
  /** Longest time that a caller of `/run` waits at any manager, from the acceptance of its job, in milliseconds. */
  readonly callerTimeout: number;
  /** Cancels a job whose caller has left. */
  readonly cancel: (key: JobKey, reason: StopReason) => Promise<void>;
}

/** Added to the caller timeout, because the clocks of managers differ a little and an answer takes time. */
const CALLER_GRACE_MS = 10_000;

/**
 * The scheduler while this manager leads. It learns of all jobs from their records. A job that it sees for the first time is
 * resumed; for known jobs the dispatcher is informed of the change.
 */
export class LeaderScheduler {
  readonly #options: LeaderSchedulerOptions;
  readonly #dispatcher: Dispatcher;
  readonly #known = new Map<string, JobKey>();
  readonly #callerTimers = new Map<string, NodeJS.Timeout>();
  readonly #over: AbortSignal;

  constructor(options: LeaderSchedulerOptions, roles: DelegationRoles, over: AbortSignal) {
    this.#options = options;
    this.#over = over;
    this.#dispatcher = new Dispatcher({ ...options, isCallerWaiting: (record) => this.#remainingWait(record) > 0 });
    this.#dispatcher.connect(roles);
  }

  get waiting(): number {
    return this.#dispatcher.waiting;
  }

  get running(): number {
    return this.#dispatcher.running;
  }

  /** Resumes all unfinished jobs and starts scheduling. */
  async start(): Promise<void> {
    await this.resync();
    if (!this.#over.aborted) this.#dispatcher.open();
  }

  /** Reads all unfinished jobs, and known jobs that are no longer among them, because changes may have been missed. */
  async resync(): Promise<void> {
    const { store } = this.#options;
    const before = new Map(this.#known);
    const attempt = async () => {
      for await (const record of store.unfinished()) {
        if (this.#over.aborted) return;
        before.delete(jobKeyText(record));
        // A job that cannot be read does not block the others; an unavailable store concerns them all.
        await this.reconcile(record).catch((problem: unknown) => {
          if (isUnavailable(problem)) throw problem;
          this.#options.report(problem, record);
        });
      }
      for (const key of before.values()) this.onChanged(key, await store.get(key));
    };
    try {
      await untilAvailable(attempt, { service: '', id: '' }, this.#options, this.#over);
    } catch (problem) {
      if (!this.#over.aborted) throw problem;
    }
  }

  /** The current record of a job; undefined if it was removed. */
  onChanged(key: JobKey, record: JobRecord | undefined): void {
    if (this.#over.aborted) return;
    if (record) void this.#reconcileWhenAvailable(record);
    else if (this.#forget(key)) this.#dispatcher.onRemoved(key);
  }

  async reconcile(record: JobRecord): Promise<void> {
    if (isFinal(record.state)) {
      if (this.#forget(record)) this.#dispatcher.onChanged(record);
      return;
    }
    this.#watchCaller(record);
    if (!this.#remember(record)) return this.#dispatcher.onChanged(record);
    try {
      await this.#dispatcher.resume(record);
    } catch (problem) {
      // The next attempt to reconcile resumes it.
      this.#known.delete(jobKeyText(record));
      throw problem;
    }
  }

  /** Retries while a store is unavailable, each time with the newest record. */
  async #reconcileWhenAvailable(record: JobRecord): Promise<void> {
    const key = { service: record.service, id: record.id };
    let current: JobRecord | undefined = record;
    const attempt = async () => {
      current ??= await this.#options.store.get(key);
      if (!current) return;
      await this.reconcile(current).finally(() => {
        current = undefined;
      });
    };
    await untilAvailable(attempt, key, this.#options, this.#over).catch((problem: unknown) => {
      if (!this.#over.aborted) this.#options.report(problem, key);
    });
  }

  enqueue(job: SchedulableJob, mode?: PlacementMode): void {
    this.#remember(job);
    this.#dispatcher.enqueue(job, mode);
  }

  begin(job: SchedulableJob): void {
    this.#remember(job);
    this.#dispatcher.begin(job);
  }

  withdraw(key: JobKey): void {
    this.#dispatcher.withdraw(key);
  }

  /** Starts no more jobs. Scripts that run go on. */
  stop(): void {
    this.#dispatcher.stop();
    for (const timer of this.#callerTimers.values()) clearTimeout(timer);
    this.#callerTimers.clear();
  }

  /** Returns false if the job was known. */
  #remember({ service, id }: JobKey): boolean {
    const name = jobKeyText({ service, id });
    if (this.#known.has(name)) return false;
    this.#known.set(name, { service, id });
    return true;
  }

  #forget(key: JobKey): boolean {
    const name = jobKeyText(key);
    clearTimeout(this.#callerTimers.get(name));
    this.#callerTimers.delete(name);
    return this.#known.delete(name);
  }

  /** When a caller leaves, its manager cancels the job. A manager that died cannot, so the leader cancels it after the timeout. */
  #watchCaller(record: JobRecord): void {
    const name = jobKeyText(record);
    if (record.trigger !== 'run' || record.cancelRequested || this.#callerTimers.has(name)) return;
    const { service, id } = record;
    const cancel = () => {
      this.#options
        .cancel({ service, id }, 'caller-left')
        .catch((problem: unknown) => this.#options.report(problem, { service, id }));
    };
    this.#callerTimers.set(name, setTimeout(cancel, Math.max(0, this.#remainingWait(record))).unref());
  }

  #remainingWait({ acceptedAt }: JobRecord): number {
    return acceptedAt + this.#options.callerTimeout + CALLER_GRACE_MS - this.#options.now();
  }
}
