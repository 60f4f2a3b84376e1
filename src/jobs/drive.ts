import { setTimeout as pause } from 'node:timers/promises';
import {
  type Ended,
  type JobRecord,
  type Observation,
  type StopReason,
  StoreError,
  type Transition,
} from '../cluster/index.ts';
import { type PreparedAttempt, prepareAttempt } from './attempt.ts';
import { changeJob } from './change-job.ts';
import type { Driving } from './dispatcher.ts';
import { advance, withAttempt } from './state.ts';

/**
 * How often what is going on before the script runs is written down. More often: an image that is pulled for minutes costs
 * a write for every layer. Less often: people wonder.
 */
const TELL_EVERY_MS = 1_000;

/** A store that is away is asked again: neither does a job fail by it, nor is an end unsaid. */
const RETRY_MS = 1_000;

/**
 * Sees the last attempt of a job through: starts it, or takes it up where it is, and writes down its end. Resolves to the
 * record in its final state; undefined when it is gone, or this manager stops first.
 */
export async function drive(
  record: JobRecord,
  wanted: { stop?: StopReason },
  jobs: Driving,
  stopping: AbortSignal,
): Promise<JobRecord | undefined> {
  const name = record.attempts.at(-1)?.name ?? record.id;
  let prepared: PreparedAttempt | undefined;
  try {
    prepared = await untilAvailable(() => prepare(name, record, jobs), record, jobs, stopping);
    const ended = prepared
      ? await run(record, prepared, wanted, jobs)
      : failed('ServiceRemoved', 'its service is gone', jobs.now());
    return ended && (await settle(record, name, ended, jobs, stopping));
  } catch (error) {
    if (stopping.aborted) return undefined;
    jobs.report(error, record);
    const reason = error instanceof Error ? error.message : String(error);
    return await settle(
      record,
      name,
      failed('StartFailed', `it could not be started: ${reason}`, jobs.now()),
      jobs,
      stopping,
    );
  } finally {
    await prepared?.release().catch((problem: unknown) => jobs.report(problem, record));
  }
}

/** How an attempt ended; beyond the reasons of a runner there are those for which none was asked. */
type End = Omit<Ended, 'reason' | 'phase'> & { readonly reason: string };

const failed = (reason: string, message: string, finishedAt: number): End => ({
  outcome: 'failed',
  reason,
  message,
  finishedAt,
});

async function prepare(name: string, record: JobRecord, jobs: Driving): Promise<PreparedAttempt | undefined> {
  const [found, event] = await Promise.all([jobs.services.get(record.service), jobs.store.event(record)]);
  if (found?.service.uid !== record.serviceUid || !event) return undefined;
  if (record.taken) return jobs.elsewhere?.prepare(name, record, found.service, event);
  return prepareAttempt(name, record, found.service, event, jobs);
}

async function run(
  record: JobRecord,
  { attempt }: PreparedAttempt,
  wanted: { stop?: StopReason },
  jobs: Driving,
): Promise<End | undefined> {
  await jobs.runner.start(attempt);
  // Whoever cancelled before there was anything to stop left a note.
  if (wanted.stop) await jobs.runner.stop(attempt.name, wanted.stop);
  let told = jobs.now();
  for await (const seen of jobs.runner.observe(attempt.name)) {
    if (seen.phase === 'ended') return seen;
    if (seen.phase === 'preparing' && jobs.now() - told < TELL_EVERY_MS) continue;
    told = jobs.now();
    await tell(record, attempt.name, seen, jobs);
  }
  return undefined;
}

async function tell(
  record: JobRecord,
  attempt: string,
  seen: Exclude<Observation, { phase: 'ended' }>,
  jobs: Driving,
): Promise<void> {
  await changeJob(record, jobs.store, (job) => {
    if (job.state !== 'running') return undefined;
    if (seen.phase === 'preparing') return job.message === seen.message ? undefined : { message: seen.message };
    const { startedAt } = seen;
    if (job.startedAt === startedAt && seen.phase === 'running') return undefined;
    const message = seen.phase === 'running' ? 'the script runs' : 'its results are being written';
    return { message, startedAt, attempts: withAttempt(job.attempts, attempt, { startedAt }) };
  });
}

async function settle(
  record: JobRecord,
  attempt: string,
  end: End,
  jobs: Driving,
  stopping: AbortSignal,
): Promise<JobRecord | undefined> {
  const facts = {
    finishedAt: end.finishedAt,
    ...(end.startedAt !== undefined && { startedAt: end.startedAt }),
    ...(end.exitCode !== undefined && { exitCode: end.exitCode }),
  };
  const write = () =>
    changeJob(record, jobs.store, (job) =>
      advance(job, lastTransition(job, end, jobs.place), {
        ...facts,
        attempts: withAttempt(job.attempts, attempt, facts),
      }),
    );
  return untilAvailable(write, record, jobs, stopping);
}

async function untilAvailable<T>(
  work: () => Promise<T>,
  record: JobRecord,
  jobs: Driving,
  stopping: AbortSignal,
): Promise<T> {
  for (;;) {
    try {
      return await work();
    } catch (problem) {
      if (stopping.aborted || !(problem instanceof StoreError) || problem.code !== 'unavailable') throw problem;
      jobs.report(problem, record);
      await pause(RETRY_MS, undefined, { signal: stopping }).catch(() => undefined);
    }
  }
}

function lastTransition(job: JobRecord, end: End, place: string): Transition {
  const at = Math.max(end.finishedAt, job.timeline.at(-1)?.at ?? 0);
  if (end.outcome !== 'stopped') return { state: end.outcome, at, reason: end.reason, message: end.message, place };
  const message = job.cancelRequested?.reason ?? end.message;
  return { state: 'cancelled', at, reason: 'Cancelled', message, place };
}
