import {
  advance,
  type Ended,
  type JobProgress,
  type JobRecord,
  type PendingResult,
  type Transition,
  withAttempt,
} from '../../model/job/index.ts';
import type { StopReason } from '../../ports/index.ts';

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
