import type { JobRecord, JobState, PendingResult, Transition } from '../../model/job/index.ts';
import type { Report } from '../../peers/index.ts';
import { delegationBackoff } from '../backoff.ts';
import { attemptOverReason, contactOrigin } from './origin-contact.ts';
import { RESULT_KEPT } from './prepare.ts';
import type { TargetDeps } from './target.ts';

/**
 * Reports to the origin that a job is still here, while it is in this state: at once when its script has started, then
 * three times per lease. If the origin no longer wants the job, it is cancelled.
 */
export function keepReporting(
  record: JobRecord,
  state: Extract<JobState, 'queued' | 'running'>,
  until: AbortSignal,
  deps: TargetDeps,
): void {
  tellUntil(record, state, AbortSignal.any([until, deps.closing]), deps).catch((problem: unknown) =>
    deps.report(problem, record),
  );
}

async function tellUntil(record: JobRecord, state: JobState, until: AbortSignal, deps: TargetDeps): Promise<void> {
  const { permits, wait, dispatcher } = deps;
  let job: JobRecord | undefined = record;
  // Before the script has started there is nothing new to report: the permit request was the last sign of life.
  let due = record.startedAt !== undefined;
  while (job?.state === state && !until.aborted) {
    if (due && (await sendReport(job, stillThere(job), deps)).kind === 'over') {
      return dispatcher.cancel({ service: job.service, id: job.id }, 'superseded');
    }
    await wait(permits.leaseFor(job) / 3, until);
    due = true;
    job = until.aborted ? undefined : await current(job, deps);
  }
}

/** If our own store fails, keep reporting the last known state. */
const current = (job: JobRecord, { store }: TargetDeps) => store.get(job).catch(() => job);

const stillThere = ({ startedAt, state, held, message }: JobRecord): Report => ({
  state: 'running',
  ...(startedAt !== undefined && { startedAt }),
  message: state === 'queued' ? (held ?? message) : message,
});

type ReportAnswer =
  | { readonly kind: 'heard' }
  | { readonly kind: 'silent'; readonly problem: unknown }
  /** The origin no longer wants the attempt. */
  | { readonly kind: 'over'; readonly why: string };

async function sendReport(record: JobRecord, report: Report, deps: TargetDeps): Promise<ReportAnswer> {
  try {
    const { origin, attempt, as, role } = await contactOrigin(record, deps);
    await origin.report(attempt, { ...report, room: deps.room.statusFor(role.origin.clusterId) }, as);
    return { kind: 'heard' };
  } catch (problem) {
    const why = attemptOverReason(problem);
    return why === undefined ? { kind: 'silent', problem } : { kind: 'over', why };
  }
}

/**
 * Reports to the origin how an attempt ended, until the origin accepts the report or rejects the attempt, for a day at
 * most.
 */
export async function reportResult(
  record: JobRecord,
  stopping: AbortSignal,
  deps: TargetDeps,
): Promise<Pick<Transition, 'state' | 'reason' | 'message'> | undefined> {
  const { now, wait, random, permits } = deps;
  const end = record.handIn;
  if (!end) return { state: 'failed', reason: 'Lost', message: 'its outcome is unknown' };
  const until = AbortSignal.any([stopping, deps.closing]);
  for (let tries = 1; !until.aborted; tries++) {
    const answer = await sendReport(record, toReport(record, end), deps);
    if (answer.kind === 'heard') return { state: end.outcome, reason: end.reason, message: finalMessage(end) };
    if (answer.kind === 'over') return { state: 'cancelled', reason: 'Superseded', message: answer.why };
    if (now() - end.finishedAt >= RESULT_KEPT) {
      return { state: 'cancelled', reason: 'OriginSilent', message: 'the origin did not answer for a day' };
    }
    if (tries === 1) deps.report(answer.problem, { service: record.service, id: record.id });
    // The origin must get the report before the lease ends, or it offers the job to another member.
    await wait(Math.min(delegationBackoff(tries, random), permits.leaseFor(record) / 3), until);
  }
  return undefined;
}

/**
 * A job that never started is released; a job that was cancelled at the target has failed, as far as the origin is
 * concerned.
 */
function toReport({ startedAt, exitCode }: JobRecord, end: PendingResult): Report {
  const { outcome, reason, message, finishedAt, manifest } = end;
  if (isReleased(end)) return { state: 'released', reason, message };
  const ending = {
    finishedAt,
    reason,
    message,
    ...(startedAt !== undefined && { startedAt }),
    ...(exitCode !== undefined && { exitCode }),
  };
  return outcome === 'succeeded' && manifest !== undefined
    ? { state: 'succeeded', ...ending, manifest }
    : { state: 'failed', ...ending };
}

const isReleased = ({ outcome, reason }: PendingResult) => outcome === 'cancelled' && reason !== 'Cancelled';

const finalMessage = (end: PendingResult) => (isReleased(end) ? `returned to the origin: ${end.message}` : end.message);

/**
 * Reports that a waiting job was cancelled at the target. After a few failures it gives up: then the lease expires,
 * with the same effect.
 */
export async function reportCancelled(record: JobRecord, deps: TargetDeps): Promise<void> {
  const { message, finishedAt = deps.now() } = record;
  const end: PendingResult = { outcome: 'cancelled', reason: 'Cancelled', message, finishedAt };
  for (let tries = 1; tries <= TRIES && !deps.closing.aborted; tries++) {
    const answer = await sendReport(record, toReport(record, end), deps);
    if (answer.kind !== 'silent') return;
    await deps.wait(delegationBackoff(tries, deps.random), deps.closing);
  }
}

const TRIES = 3;
