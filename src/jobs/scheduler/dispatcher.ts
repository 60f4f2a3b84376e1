import { setTimeout as pause } from 'node:timers/promises';
import { advance, isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import { isUnavailable, type StopReason } from '../../ports/index.ts';
import { runAttempt, untilAvailable } from '../attempt/run.ts';
import { removeOriginStore } from '../attempt/store-access.ts';
import { placementModeFor } from '../intake/submit.ts';
import {
  attemptName,
  changeJob,
  type DelegationRoles,
  type DispatcherOptions,
  jobKeyText,
  type PlacementMode,
  type SchedulableJob,
  type Scheduler,
} from '../jobs.ts';
import { JobQueue, type QueuedJob } from './queue.ts';
import { concernsOtherCluster, requestedStop, requestStop } from './stop-request.ts';

interface RunningJob {
  stop?: StopReason;
  attempt?: string;
}

/** Pause before a job is queued again whose record could not be written. */
const RETRY_MS = 2_000;

/**
 * Jobs that upload results without room of their own. With a larger value, results pile up on the disk while a store is
 * slow; with a smaller one, slots are idle while results of short jobs are uploaded.
 */
const MAX_UPLOADING = 64;

/**
 * Starts queued jobs when there is room for them, and runs each attempt to its end. Its memory can be rebuilt from the job
 * records: after a crash the next manager resumes queued and running jobs, and never starts a script twice.
 */
export class Dispatcher implements Scheduler {
  readonly #jobs: DispatcherOptions;
  readonly #queue: JobQueue;
  /** Jobs whose attempt this manager runs. */
  readonly #running = new Map<string, RunningJob>();
  /** Running jobs whose script has ended and whose room was released. */
  readonly #uploading = new Set<string>();
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
      onCallWaits: (key) => this.#inBackground(key, this.#considerCall(key)),
    });
  }

  /** Jobs that are queued for room here. */
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

  /** Resumes all unfinished jobs and starts scheduling, until the signal aborts. */
  async lead(roles: DelegationRoles, until: AbortSignal): Promise<void> {
    this.connect(roles);
    until.addEventListener('abort', () => this.stop(), { once: true });
    await this.start();
  }

  async start(): Promise<void> {
    for await (const record of this.#jobs.store.unfinished()) await this.resume(record);
    this.open();
  }

  /** Starts scheduling without resuming unfinished jobs; the caller resumes them. */
  open(): void {
    this.#unsubscribe = this.#jobs.capacity.onFreed(() => this.#queue.onCapacityFreed());
    this.#queue.startFitting();
  }

  /** Starts no more jobs. Scripts that run go on, and the next manager resumes them. */
  stop(): void {
    this.#stopping.abort();
    this.#unsubscribe?.();
    this.#queue.close();
    for (const listeners of this.#endListeners.values()) for (const notify of listeners) notify(undefined);
    this.#endListeners.clear();
  }

  enqueue(job: SchedulableJob, mode: PlacementMode = 'local'): void {
    const key = { service: job.service, id: job.id };
    if (this.#running.has(jobKeyText(job))) return;
    const { delegation } = this.#roles;
    if (mode === 'any' && delegation) return delegation.consider(key, mode);
    this.#queue.add(job);
    if (mode !== 'local' && this.#queue.waitsForRoom(key)) delegation?.consider(key, mode);
  }

  begin({ service, id, owner, demand }: SchedulableJob): void {
    const key = { service, id };
    if (this.#running.has(jobKeyText(key))) return;
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
    const driven = this.#running.get(jobKeyText(key));
    if (!driven) return;
    driven.stop ??= reason;
    const attempt = record?.attempts.at(-1);
    if (attempt) await this.#jobs.runner.stop(attempt.name, reason);
  }

  async waitUntilEnded(key: JobKey): Promise<JobRecord | undefined> {
    const { promise, resolve } = Promise.withResolvers<JobRecord | undefined>();
    const name = jobKeyText(key);
    this.#endListeners.set(name, [...(this.#endListeners.get(name) ?? []), resolve]);
    const record = await this.#jobs.store.get(key);
    if (!record || isFinal(record.state) || this.#stopping.signal.aborted) this.#notifyEnd(name, record);
    return promise;
  }

  notify(record: JobRecord): void {
    this.#notifyEnd(jobKeyText(record), record);
  }

  /** Continues with a job that another manager accepted, or that an earlier run of this one left unfinished. */
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

  /** The record of a job was changed, by this manager or another one. Calling it again with the same record is a no-op. */
  onChanged(record: JobRecord): void {
    const { state, taken } = record;
    const driven = this.#running.get(jobKeyText(record));
    if (state !== 'queued') this.#dequeue(record);
    else if (!driven) this.#queue.onChanged(record);
    if (state === 'cancelled') this.#onCancelled(record);
    else if (isFinal(state)) this.notify(record);
    if (driven) this.#stopAttempt(record, driven, requestedStop(record));
    // A former leader, which did not know yet that it no longer leads, started this job or ran it up to this state.
    else if (state === 'running') this.#inBackground(record, this.#resumeAttempt(record, requestedStop(record)));
    else if (state === 'committing' && taken) this.#inBackground(record, this.#reportResultIfPending(record));
    if (!taken) this.#roles.delegation?.onChanged(record);
  }

  /** The record of a job was removed. */
  onRemoved(key: JobKey): void {
    this.#dequeue(key);
    this.#notifyEnd(jobKeyText(key), undefined);
    const driven = this.#running.get(jobKeyText(key));
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
      // The definition is damaged. The job fails with that reason when it is started.
      return 'local';
    }
  }

  /**
   * Offers a job that has been suspended for a while to other clusters, as if there were no room here. Re-reads the record,
   * because changes may have been missed.
   */
  async #considerSuspended(key: JobKey): Promise<void> {
    const record = await this.#jobs.store.get(key);
    if (record?.state !== 'queued') return this.#queue.remove(key);
    if (record.held === undefined) return this.#queue.onChanged(record);
    const mode = await this.#placementModeFor(record);
    if (mode === 'overflow' && this.#queue.isSuspended(key)) this.#roles.delegation?.consider(key, mode);
  }

  /** The limit of calls is checked after a call is accepted, so only then it is known whether the call waits for room. */
  async #considerCall(key: JobKey): Promise<void> {
    const { delegation } = this.#roles;
    const record = delegation && (await this.#jobs.store.get(key));
    if (record?.state !== 'queued' || (await this.#placementModeFor(record)) !== 'overflow') return;
    if (this.#queue.waitsForRoom(key)) delegation?.consider(key, 'overflow');
  }

  #dequeue(key: JobKey): void {
    this.#queue.remove(key);
    if (!this.#running.has(jobKeyText(key))) this.#queue.releaseCall(key);
  }

  #start(waiting: QueuedJob): void {
    this.#running.set(jobKeyText(waiting.key), {});
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
      // The write may have succeeded despite the error, and the job may be running by now.
      if (!this.#running.has(jobKeyText(key))) this.#queue.requeue(waiting, false);
      throw error;
    }
    if (record) return this.#runAttempt(record, undefined);
    this.#release(key);
    // Another manager may have started this job first. Its updates arrived while we were starting it, so re-read the record.
    const other = await store.get(key);
    if (other?.state === 'queued' && other.held !== undefined) this.#queue.requeue(waiting, true);
    if (other) this.onChanged(other);
  }

  /**
   * Resumes an attempt that was started before. The record that we have seen may be older than the end of the attempt, and
   * starting an attempt that has ended and was forgotten would run its script twice. So first write to the record: only if
   * it is still running in the same epoch, the attempt is resumed.
   */
  async #resumeAttempt(seen: JobRecord, stop: StopReason | undefined): Promise<void> {
    const name = jobKeyText(seen);
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

  /** Runs an attempt to its end, or until this manager stops. */
  async #runAttempt(record: JobRecord, stop: StopReason | undefined): Promise<void> {
    const name = jobKeyText(record);
    const attempt = record.attempts.at(-1)?.name;
    const driven = { ...this.#running.get(name), ...(stop && { stop }), ...(attempt !== undefined && { attempt }) };
    this.#running.set(name, driven);
    try {
      const last = await runAttempt(
        record,
        driven,
        { ...this.#jobs, hostedJobs: this.#roles.hostedJobs, onScriptEnded: () => this.#releaseRoomEarly(name) },
        this.#stopping.signal,
      );
      if (last?.state === 'committing') this.#inBackground(last, this.#reportResult(last));
      else if (last) this.notify(last);
      else this.#notifyEnd(name, undefined);
    } finally {
      this.#uploading.delete(name);
      this.#release(record);
      this.#queue.startFitting();
    }
  }

  /**
   * A script that has ended uses no CPU and no memory any more, so the next job may start while its results are uploaded,
   * which takes long over a slow link. Where a pod still has the room, the cluster counts the pod.
   */
  #releaseRoomEarly(name: string): void {
    if (this.#uploading.size >= MAX_UPLOADING) return;
    this.#uploading.add(name);
    this.#jobs.capacity.release(name);
  }

  /** A hosted job has ended and its room is released. Reports the result to its origin, then writes the final state. */
  async #reportResult(record: JobRecord): Promise<void> {
    const { store, now, place } = this.#jobs;
    const end = await this.#roles.hostedJobs?.reportResult(record, this.#stopping.signal);
    if (!end) return;
    const write = () => changeJob(record, store, (job) => advance(job, { ...end, at: now(), place }));
    const last = await untilAvailable(write, record, this.#jobs, this.#stopping.signal);
    if (last) this.notify(last);
  }

  /** The same, unless the manager that wrote the record has reported already. */
  async #reportResultIfPending(seen: JobRecord): Promise<void> {
    const record = await this.#jobs.store.get(seen);
    if (record?.state === 'committing' && !this.#running.has(jobKeyText(seen))) await this.#reportResult(record);
  }

  #onCancelled(record: JobRecord): void {
    this.notify(record);
    this.#inBackground(record, removeOriginStore(record, this.#jobs.secrets));
    if (!concernsOtherCluster(record)) return;
    if (record.taken) this.#roles.hostedJobs?.reportCancelled(record);
    else this.#roles.delegation?.onCancelled(record);
  }

  #stopAttempt(key: JobKey, driven: RunningJob, reason: StopReason | undefined): void {
    if (!reason || driven.stop) return;
    driven.stop = reason;
    if (driven.attempt !== undefined) this.#inBackground(key, this.#jobs.runner.stop(driven.attempt, reason));
  }

  #release(key: JobKey): void {
    this.#running.delete(jobKeyText(key));
    this.#jobs.capacity.release(jobKeyText(key));
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
    for (const notify of listeners) notify(record);
  }

  #inBackground({ service, id }: JobKey, work: Promise<void>): void {
    work.catch((problem: unknown) => this.#jobs.report(problem, { service, id }));
  }
}
