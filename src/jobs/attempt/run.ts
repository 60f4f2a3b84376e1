import { setTimeout as pause } from 'node:timers/promises';
import { OscarError } from '../../lib/oscar-error.ts';
import {
  advance,
  type Ended,
  type JobKey,
  type JobProgress,
  type JobRecord,
  type PendingResult,
  type Transition,
  withAttempt,
} from '../../model/job/index.ts';
import { isUnavailable, type Observation, type StopReason, StoreError } from '../../ports/index.ts';
import { type AttemptDeps, changeJob, type PreparedAttempt } from '../jobs.ts';
import { prepareAttempt } from './prepare.ts';

/**
 * How often the progress before the start of the script is written into the record. A shorter interval costs a write for
 * every layer of an image that is pulled for minutes; a longer one shows users outdated messages.
 */
const PROGRESS_INTERVAL_MS = 1_000;

/** Pause before an unavailable store is tried again. Outages of a store neither fail a job nor lose its end. */
const RETRY_MS = 1_000;

/**
 * Runs the last attempt of a job: starts or resumes it, waits for its end, and writes the outcome. Resolves to the written
 * record; undefined if the job was removed, or this manager stops first.
 */
export async function runAttempt(
  record: JobRecord,
  wanted: { stop?: StopReason },
  jobs: AttemptDeps,
  stopping: AbortSignal,
): Promise<JobRecord | undefined> {
  const name = record.attempts.at(-1)?.name ?? record.id;
  let prepared: PreparedAttempt | undefined;
  try {
    prepared = await untilAvailable(() => prepare(name, record, jobs), record, jobs, stopping, wanted);
    const ended = prepared
      ? await run(record, prepared, wanted, jobs, stopping)
      : failedOutcome('ServiceRemoved', 'the service was deleted', jobs.now());
    return ended && (await writeOutcome(record, name, ended, wanted, jobs, stopping));
  } catch (error) {
    if (stopping.aborted) return undefined;
    if (!isWithdrawn(error)) jobs.report(error, record);
    return await writeOutcome(record, name, toFailure(error, wanted, jobs.now()), wanted, jobs, stopping);
  } finally {
    // If this manager stops, the script goes on and needs its keys until the next manager has resumed it.
    if (!stopping.aborted) await prepared?.release().catch((problem: unknown) => jobs.report(problem, record));
  }
}

const isWithdrawn = (error: unknown): error is NotRun => error instanceof NotRun && error.code === 'called-off';

function toFailure(error: unknown, { stop }: { stop?: StopReason }, at: number): AttemptOutcome {
  const why = error instanceof Error ? error.message : String(error);
  const stopped: AttemptOutcome = { outcome: 'stopped', reason: 'Stopped', message: why, finishedAt: at };
  // Without the stop request it would have been tried again.
  if (stop && isUnavailable(error))
    return { ...stopped, message: `it was stopped before it could be started: ${stop}` };
  if (!(error instanceof NotRun)) return failedOutcome('StartFailed', `it could not be started: ${why}`, at);
  if (isWithdrawn(error)) return { ...stopped, calledOff: true };
  return stop ? stopped : failedOutcome('OriginAway', why, at);
}

async function prepare(name: string, record: JobRecord, jobs: AttemptDeps): Promise<PreparedAttempt | undefined> {
  const [found, event] = await Promise.all([jobs.services.get(record.service), jobs.store.event(record)]);
  if (found?.service.uid !== record.serviceUid || !event) return undefined;
  if (record.taken) return jobs.hostedJobs?.prepare(name, record, found.service, event);
  return prepareAttempt(name, record, found.service, event, jobs);
}

async function run(
  record: JobRecord,
  { attempt }: PreparedAttempt,
  wanted: { stop?: StopReason },
  jobs: AttemptDeps,
  stopping: AbortSignal,
): Promise<AttemptOutcome | undefined> {
  const heartbeat = new Heartbeat(jobs);
  heartbeat.report(record);
  try {
    // A full disk is unavailable too. Starting again is a no-op if the attempt has started.
    await untilAvailable(() => jobs.runner.start(attempt), record, jobs, stopping, wanted);
    // A stop that was requested before the attempt existed is in `wanted`.
    if (wanted.stop) await jobs.runner.stop(attempt.name, wanted.stop);
    let writtenAt = jobs.now();
    for await (const seen of takeUntilAborted(jobs.runner.observe(attempt.name), stopping)) {
      if (seen.phase === 'ended') return seen;
      if (seen.phase === 'uploading') jobs.onScriptEnded();
      if (seen.phase === 'preparing' && jobs.now() - writtenAt < PROGRESS_INTERVAL_MS) continue;
      writtenAt = jobs.now();
      const changed = await writeProgress(record, attempt.name, seen, jobs);
      if (changed) heartbeat.report(changed);
    }
    return undefined;
  } finally {
    heartbeat.stop();
  }
}

/** Reports a hosted job to its origin: regularly, and at once when its script starts. */
class Heartbeat {
  readonly #jobs: AttemptDeps;
  #until: AbortController | undefined;
  #startedAt: number | undefined;

  constructor(jobs: AttemptDeps) {
    this.#jobs = jobs;
  }

  report(record: JobRecord): void {
    if (!record.taken || (this.#until && this.#startedAt === record.startedAt)) return;
    this.stop();
    this.#startedAt = record.startedAt;
    this.#until = new AbortController();
    this.#jobs.hostedJobs?.reportRunning(record, this.#until.signal);
  }

  stop(): void {
    this.#until?.abort(OVER);
  }
}

/** An explicit reason avoids creating an AbortError with a stack for each job; nobody reads it. */
const OVER = 'attempt ended';

async function writeProgress(
  record: JobRecord,
  attempt: string,
  seen: Exclude<Observation, { phase: 'ended' }>,
  jobs: AttemptDeps,
): Promise<JobRecord | undefined> {
  return changeJob(record, jobs.store, (job) => {
    if (job.state !== 'running') return undefined;
    if (seen.phase === 'preparing') return job.message === seen.message ? undefined : { message: seen.message };
    const { startedAt } = seen;
    if (job.startedAt === startedAt && seen.phase === 'running') return undefined;
    const message = seen.phase === 'running' ? 'the script runs' : 'writing the results';
    return { message, startedAt, attempts: withAttempt(job.attempts, attempt, { startedAt }) };
  });
}

async function writeOutcome(
  record: JobRecord,
  attempt: string,
  end: AttemptOutcome,
  wanted: { stop?: StopReason },
  jobs: AttemptDeps,
  stopping: AbortSignal,
): Promise<JobRecord | undefined> {
  const decide = (job: JobRecord) => conclude(job, attempt, end, wanted.stop, jobs.place);
  return untilAvailable(() => changeJob(record, jobs.store, decide), record, jobs, stopping);
}

/** Does the work, and retries it while a store is unavailable. */
export async function untilAvailable<T>(
  work: () => Promise<T>,
  key: JobKey,
  jobs: Pick<AttemptDeps, 'now' | 'report'>,
  stopping: AbortSignal,
  wanted: { stop?: StopReason } = {},
): Promise<T> {
  const began = jobs.now();
  for (;;) {
    try {
      return await work();
    } catch (problem) {
      if (stopping.aborted || wanted.stop || !isTransient(problem, jobs.now() - began)) throw problem;
      if (problem instanceof StoreError) jobs.report(problem, key);
      await pause(RETRY_MS, undefined, { signal: stopping }).catch(() => undefined);
    }
  }
}

/** Whether to retry. A store of this cluster comes back; the origin is retried only as long as it waits for this attempt. */
function isTransient(problem: unknown, waited: number): boolean {
  if (problem instanceof NotRun) return problem.code === 'origin-away' && waited < problem.patience;
  return isUnavailable(problem);
}

/** Yields the items until the signal aborts, also if the source never yields again. */
async function* takeUntilAborted<T>(items: AsyncIterable<T>, until: AbortSignal): AsyncGenerator<T, undefined> {
  const iterator = items[Symbol.asyncIterator]();
  const { promise: over, resolve } = Promise.withResolvers<undefined>();
  const end = () => resolve(undefined);
  until.addEventListener('abort', end, { once: true });
  if (until.aborted) end();
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), over]);
      if (!next || next.done) return;
      yield next.value;
    }
  } finally {
    until.removeEventListener('abort', end);
    // Not awaited: the source may itself wait for something that never comes.
    iterator.return?.().catch(() => undefined);
  }
}

/**
 * Why a hosted job cannot be started. `called-off`: its origin no longer wants this attempt. `origin-away`: the origin does
 * not answer.
 */
type NotRunCode = 'called-off' | 'origin-away';

/** Thrown by `HostedJobs.prepare` and handled by {@link runAttempt}; it never reaches a client. */
export class NotRun extends OscarError<NotRunCode> {
  /** With `origin-away`: milliseconds for which to retry. After that the origin has offered the job to another member. */
  readonly patience: number;

  constructor(code: NotRunCode, message: string, options: ErrorOptions & { readonly patience?: number } = {}) {
    super(code, message, options);
    this.patience = options.patience ?? 0;
  }
}

/** How an attempt ended. Besides the reasons of a runner there are reasons for which no runner was called. */
export type AttemptOutcome = Omit<Ended, 'reason' | 'phase'> & {
  readonly reason: string;
  /** The origin withdrew this attempt, so it gets no report. */
  readonly calledOff?: true;
};

export const failedOutcome = (reason: string, message: string, finishedAt: number): AttemptOutcome => ({
  outcome: 'failed',
  reason,
  message,
  finishedAt,
});

/**
 * Computes the change of the job record after its attempt has ended. A hosted job becomes `committing` until its origin has
 * the result, unless the origin itself ended it. Undefined if the job is already in a final state.
 */
export function conclude(
  job: JobRecord,
  attempt: string,
  outcome: AttemptOutcome,
  stop: StopReason | undefined,
  place: string,
): Partial<JobProgress> | undefined {
  // The owner did not ask for an eviction: the job fails with the reason and is not run again.
  const end = outcome.outcome === 'stopped' && stop === 'evicted' ? { ...outcome, ...evicted(job) } : outcome;
  const facts = {
    finishedAt: end.finishedAt,
    ...(end.startedAt !== undefined && { startedAt: end.startedAt }),
    ...(end.exitCode !== undefined && { exitCode: end.exitCode }),
  };
  const more = { ...facts, attempts: withAttempt(job.attempts, attempt, facts) };
  const at = Math.max(end.finishedAt, job.timeline.at(-1)?.at ?? 0);
  const unwanted = end.calledOff ?? (end.outcome === 'stopped' && stop === 'superseded');
  if (!job.taken || unwanted) return advance(job, { ...finalTransition(job, end, unwanted), at, place }, more);
  const telling = { state: 'committing', reason: 'HandingIn', message: 'its origin is told how it ended' } as const;
  return advance(job, { ...telling, at, place }, { ...more, handIn: toPendingResult(job, end) });
}

function evicted({ held }: JobRecord): Pick<AttemptOutcome, 'outcome' | 'reason' | 'message'> {
  const message = `the cluster took back the leave to run it${held === undefined ? '' : `: ${held}`}`;
  return { outcome: 'failed', reason: 'Evicted', message };
}

function finalTransition(
  job: JobRecord,
  end: AttemptOutcome,
  unwanted: boolean,
): Pick<Transition, 'state' | 'reason' | 'message'> {
  const { outcome, reason, message } = end;
  if (outcome !== 'stopped') return { state: outcome, reason, message };
  const why = end.calledOff ? message : (job.cancelRequested?.reason ?? message);
  return { state: 'cancelled', reason: unwanted ? 'Superseded' : 'Cancelled', message: why };
}

/**
 * The result for the origin. An attempt whose script never started is returned to the origin as `cancelled`, whatever the
 * reason: another cluster may have the image, or a connection to the file. If the job itself is at fault, it fails there.
 */
function toPendingResult(job: JobRecord, end: AttemptOutcome): PendingResult {
  const { finishedAt, message, reason, manifest } = end;
  if (end.outcome === 'stopped') {
    return { outcome: 'cancelled', reason: 'Cancelled', message: job.cancelRequested?.reason ?? message, finishedAt };
  }
  if (end.outcome === 'failed') {
    const began = (end.startedAt ?? job.startedAt) !== undefined;
    return { outcome: began ? 'failed' : 'cancelled', reason, message, finishedAt };
  }
  // Without a manifest nothing can be committed, and success without results is worse than a failure.
  const unlisted = {
    outcome: 'failed',
    reason: 'OutputFailed',
    message: 'its results were not listed',
    finishedAt,
  } as const;
  return manifest === undefined ? unlisted : { outcome: 'succeeded', reason, message, finishedAt, manifest };
}
