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

/** How an attempt ended; beyond the reasons of a runner there are those for which none was asked. */
export type AttemptOutcome = Omit<Ended, 'reason' | 'phase'> & {
  readonly reason: string;
  /** The cluster that it was taken from does not want to hear of it. */
  readonly calledOff?: true;
};

export const failedOutcome = (reason: string, message: string, finishedAt: number): AttemptOutcome => ({
  outcome: 'failed',
  reason,
  message,
  finishedAt,
});

/**
 * What the end of an attempt makes of its job. The end of a job that was taken from another cluster is for that one to
 * hear of first; unless it was that one who wanted it to end. Undefined when there is nothing to be ended any more.
 */
export function conclude(
  job: JobRecord,
  attempt: string,
  told: AttemptOutcome,
  stop: StopReason | undefined,
  place: string,
): Partial<JobProgress> | undefined {
  // Nobody asked for that: it is not run again, and its owner has to hear why.
  const end = told.outcome === 'stopped' && stop === 'evicted' ? { ...told, ...evicted(job) } : told;
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
 * What is said to the origin. One whose script never began here is given back, whatever hindered it: another cluster may
 * have the image, or the way to the file; and if it is the job's own fault, that comes out where it belongs.
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
  // Nothing can be committed by it, and success without results is worse than a failure.
  const unlisted = {
    outcome: 'failed',
    reason: 'OutputFailed',
    message: 'its results were not listed',
    finishedAt,
  } as const;
  return manifest === undefined ? unlisted : { outcome: 'succeeded', reason, message, finishedAt, manifest };
}
