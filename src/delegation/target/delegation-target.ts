import { type HostedJobs, jobKeyText, readLog } from '../../jobs/index.ts';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import { DelegationError, type Offer, type RemoteLogOptions } from '../../peers/index.ts';
import type { AuthenticatedCoordinator, TargetServer } from '../server.ts';
import { acceptOffer, type TakenOffer, type WorkerService } from './accept.ts';
import { prepareDelegated } from './prepare.ts';
import { keepReporting, reportCancelled, reportResult } from './reporting.ts';
import { openTarget, type TargetConfig, type TargetDeps } from './target.ts';

/** The target: accepts, runs and reports jobs of other clusters. */
export class DelegationTarget implements HostedJobs, TargetServer {
  readonly #closing = new AbortController();
  readonly #deps: TargetDeps;

  constructor(parts: TargetConfig) {
    this.#deps = openTarget(parts, this.#closing.signal);
  }

  /** Running attempts are in the records, and the next manager continues with them. */
  close(): void {
    this.#closing.abort();
  }

  async offer(offer: Offer, from: AuthenticatedCoordinator): Promise<TakenOffer> {
    return acceptOffer(offer, workerOf(from), from.member, this.#deps);
  }

  async status(from: AuthenticatedCoordinator): Promise<Snapshot> {
    const { federation } = from.worker.service;
    return this.#deps.room.statusFor(federation?.role === 'worker' ? federation.origin.clusterId : '');
  }

  stop(attempt: JobKey, from: AuthenticatedCoordinator): Promise<void> {
    return stopAttempt(attempt, from, this.#deps);
  }

  logs(attempt: JobKey, options: RemoteLogOptions, from: AuthenticatedCoordinator): Promise<AsyncIterable<Uint8Array>> {
    return attemptLog(attempt, options, from, this.#deps);
  }

  prepare(...[name, record, service, event]: Parameters<HostedJobs['prepare']>): ReturnType<HostedJobs['prepare']> {
    return prepareDelegated(name, record, service, event, this.#deps);
  }

  reportQueued(record: JobRecord, until: AbortSignal): void {
    keepReporting(record, 'queued', until, this.#deps);
  }

  reportRunning(record: JobRecord, until: AbortSignal): void {
    keepReporting(record, 'running', until, this.#deps);
  }

  reportResult(record: JobRecord, stopping: AbortSignal): ReturnType<HostedJobs['reportResult']> {
    return reportResult(record, stopping, this.#deps);
  }

  /** Reports to its origin that a waiting job was cancelled at this target. */
  reportCancelled(record: JobRecord): void {
    reportCancelled(record, this.#deps).catch((problem: unknown) => this.#deps.report(problem, record));
  }
}

/** The worker that the key belongs to. */
function workerOf({ worker: { service }, uid }: AuthenticatedCoordinator): WorkerService {
  const { definition, federation } = service;
  if (federation?.role === 'worker' && federation.uid === uid) return { ...service, federation };
  throw new DelegationError('offer-not-allowed', `"${definition.name}" is not a worker of this federation`);
}

/** The log of an attempt, for its origin. Throws `job-gone` before the first chunk is read. */
async function attemptLog(
  key: JobKey,
  options: RemoteLogOptions,
  from: AuthenticatedCoordinator,
  deps: TargetDeps,
): Promise<AsyncIterable<Uint8Array>> {
  const record = await findTaken(key, from, deps);
  if (!record) throw new DelegationError('job-gone', `there is no attempt "${key.id}" of this federation here`);
  if (!options.answer) return readLog(record, options, deps);
  const attempt = record.attempts.at(-1);
  if (!attempt) throw new DelegationError('job-gone', `the attempt "${key.id}" has no answer: it was never started`);
  return deps.runner.answer(attempt.name);
}

/**
 * Ends an attempt that its origin no longer wants. Does nothing if there is no such attempt, or if it has ended. Waits
 * for an offer of it that is being accepted, so that the job does not start afterwards.
 */
async function stopAttempt(key: JobKey, from: AuthenticatedCoordinator, deps: TargetDeps): Promise<void> {
  await deps.mutex.run(jobKeyText(key), async () => {
    const record = await findTaken(key, from, deps);
    if (record) await deps.dispatcher.cancel(key, 'superseded');
  });
}

/** The job of an attempt that was accepted from exactly this federation and member. */
async function findTaken(
  { service, id }: JobKey,
  { uid, member }: AuthenticatedCoordinator,
  { store }: Pick<TargetDeps, 'store'>,
): Promise<JobRecord | undefined> {
  const record = await store.get({ service, id });
  return record?.taken?.uid === uid && record.taken.member === member ? record : undefined;
}
