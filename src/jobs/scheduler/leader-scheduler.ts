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
  /** Milliseconds that callers of `/run` wait at most, at whichever manager, from when their job was accepted. */
  readonly callerTimeout: number;
  /** Ends a job that nobody waits for any more. */
  readonly cancel: (key: JobKey, reason: StopReason) => Promise<void>;
}

/** Clocks of managers differ a little, and an answer takes its time. */
const CALLER_GRACE_MS = 10_000;

/**
 * The line while this manager leads. It learns of jobs by what is written, whoever writes it, and knows which of them it
 * has taken up already: those it only hears of.
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

  /** Takes up everything that has not ended, and begins. */
  async start(): Promise<void> {
    await this.resync();
    if (!this.#over.aborted) this.#dispatcher.open();
  }

  /** Looks at everything, because what happened was not heard of. */
  async resync(): Promise<void> {
    const { store } = this.#options;
    const before = new Map(this.#known);
    const look = async () => {
      for await (const record of store.unfinished()) {
        if (this.#over.aborted) return;
        before.delete(jobKeyText(record));
        // One that nobody can read does not keep the others waiting; a store that is away concerns them all.
        await this.reconcile(record).catch((problem: unknown) => {
          if (isUnavailable(problem)) throw problem;
          this.#options.report(problem, record);
        });
      }
      for (const key of before.values()) this.onChanged(key, await store.get(key));
    };
    try {
      await untilAvailable(look, { service: '', id: '' }, this.#options, this.#over);
    } catch (problem) {
      if (!this.#over.aborted) throw problem;
    }
  }

  /** How a job is by now; without a record it is gone. */
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
      // Whoever looks next takes it up.
      this.#known.delete(jobKeyText(record));
      throw problem;
    }
  }

  /** What is needed for it may be away for a moment, and it may have changed by then. */
  async #reconcileWhenAvailable(record: JobRecord): Promise<void> {
    const key = { service: record.service, id: record.id };
    let heard: JobRecord | undefined = record;
    const look = async () => {
      heard ??= await this.#options.store.get(key);
      if (!heard) return;
      await this.reconcile(heard).finally(() => {
        heard = undefined;
      });
    };
    await untilAvailable(look, key, this.#options, this.#over).catch((problem: unknown) => {
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

  /** Starts nothing any more. What runs goes on without us. */
  stop(): void {
    this.#dispatcher.stop();
    for (const timer of this.#callerTimers.values()) clearTimeout(timer);
    this.#callerTimers.clear();
  }

  /** False for one that is known already. */
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

  /** Whoever called ends the job when they leave; a manager that dies cannot, and then its time does. */
  #watchCaller(record: JobRecord): void {
    const name = jobKeyText(record);
    if (record.trigger !== 'run' || record.cancelRequested || this.#callerTimers.has(name)) return;
    const { service, id } = record;
    const leave = () => {
      this.#options
        .cancel({ service, id }, 'caller-left')
        .catch((problem: unknown) => this.#options.report(problem, { service, id }));
    };
    this.#callerTimers.set(name, setTimeout(leave, Math.max(0, this.#remainingWait(record))).unref());
  }

  #remainingWait({ acceptedAt }: JobRecord): number {
    return acceptedAt + this.#options.callerTimeout + CALLER_GRACE_MS - this.#options.now();
  }
}
