import { setTimeout as pause } from 'node:timers/promises';
import { OscarError } from '../../lib/oscar-error.ts';
import { type JobKey, type JobRecord, withAttempt } from '../../model/job/index.ts';
import { isUnavailable, type Observation, type StopReason, StoreError } from '../../ports/index.ts';
import { changeJob } from '../change-job.ts';
import type { AttemptDeps, PreparedAttempt } from '../jobs.ts';
import { type AttemptOutcome, conclude, failedOutcome } from './finish.ts';
import { prepareAttempt } from './prepare.ts';

/**
 * How often what is going on before the script runs is written down. More often: an image that is pulled for minutes costs
 * a write for every layer. Less often: people wonder.
 */
const PROGRESS_INTERVAL_MS = 1_000;

/** A store that is away is asked again: neither does a job fail by it, nor is an end unsaid. */
const RETRY_MS = 1_000;

/**
 * Sees the last attempt of a job through: starts it, or takes it up where it is, and writes down its end. Resolves to the
 * record that says so; undefined when it is gone, or this manager stops first.
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
      : failedOutcome('ServiceRemoved', 'its service is gone', jobs.now());
    return ended && (await writeOutcome(record, name, ended, wanted, jobs, stopping));
  } catch (error) {
    if (stopping.aborted) return undefined;
    if (!isWithdrawn(error)) jobs.report(error, record);
    return await writeOutcome(record, name, toFailure(error, wanted, jobs.now()), wanted, jobs, stopping);
  } finally {
    // What goes on without us needs its keys, until whoever comes next sees it through.
    if (!stopping.aborted) await prepared?.release().catch((problem: unknown) => jobs.report(problem, record));
  }
}

const isWithdrawn = (error: unknown): error is NotRun => error instanceof NotRun && error.code === 'called-off';

function toFailure(error: unknown, { stop }: { stop?: StopReason }, at: number): AttemptOutcome {
  const why = error instanceof Error ? error.message : String(error);
  const stopped: AttemptOutcome = { outcome: 'stopped', reason: 'Stopped', message: why, finishedAt: at };
  // It would be tried again if it were still wanted.
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
  const hearing = new Heartbeat(jobs);
  hearing.report(record);
  try {
    await jobs.runner.start(attempt);
    // Whoever cancelled before there was anything to stop left a note.
    if (wanted.stop) await jobs.runner.stop(attempt.name, wanted.stop);
    let told = jobs.now();
    for await (const seen of takeUntilAborted(jobs.runner.observe(attempt.name), stopping)) {
      if (seen.phase === 'ended') return seen;
      if (seen.phase === 'preparing' && jobs.now() - told < PROGRESS_INTERVAL_MS) continue;
      told = jobs.now();
      const changed = await writeProgress(record, attempt.name, seen, jobs);
      if (changed) hearing.report(changed);
    }
    return undefined;
  } finally {
    hearing.stop();
  }
}

/** The cluster that a job was taken from hears of it: now and then, and at once when its script begins. */
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

/** Nobody reads it; without one, an error with its stack is made for each job. */
const OVER = 'it is over';

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
    const message = seen.phase === 'running' ? 'the script runs' : 'its results are being written';
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

/** Does it, however often a store is away. */
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

/** Is it worth trying again? A store of ours comes back; another cluster is waited for as long as it waits for us. */
function isTransient(problem: unknown, waited: number): boolean {
  if (problem instanceof NotRun) return problem.code === 'origin-away' && waited < problem.patience;
  return isUnavailable(problem);
}

/** The same items, until the signal: then no more of them, also if nothing comes by itself any more. */
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
    // Nobody waits for that: it may be waiting itself, for something that never comes.
    iterator.return?.().catch(() => undefined);
  }
}

/**
 * Why a job of another cluster cannot be begun here. `called-off`: that cluster does not want it run, here or by now.
 * `origin-away`: that cluster does not answer.
 */
type NotRunCode = 'called-off' | 'origin-away';

/** Says so to whoever sees the job through; nobody outside is told. */
export class NotRun extends OscarError<NotRunCode> {
  /** With `origin-away`: milliseconds for which it is worth asking again. After that it has asked somebody else. */
  readonly patience: number;

  constructor(code: NotRunCode, message: string, options: ErrorOptions & { readonly patience?: number } = {}) {
    super(code, message, options);
    this.patience = options.patience ?? 0;
  }
}
