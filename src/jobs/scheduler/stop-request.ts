import { advance, isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import type { StopReason } from '../../ports/index.ts';
import { changeJob, type Jobs } from '../jobs.ts';

/**
 * Writes a request to end a job into its record. A queued job is cancelled by this write; a running one is stopped by the
 * manager that runs its attempt. Resolves to the written record; undefined if the job has ended or its end was requested
 * before.
 */
export async function requestStop(
  key: JobKey,
  reason: StopReason,
  { store, now, place }: Pick<Jobs, 'store' | 'now' | 'place'>,
): Promise<JobRecord | undefined> {
  const message = STOP_MESSAGES[reason];
  return changeJob(key, store, (job) => {
    if (isFinal(job.state) || job.state === 'committing' || job.cancelRequested) return undefined;
    const at = now();
    const ended = { state: 'cancelled', at, reason: 'Cancelled', message, place } as const;
    return job.state === 'running'
      ? { cancelRequested: { at, reason: message } }
      : advance(job, ended, { finishedAt: at });
  });
}

/** Why a job must end: a request in its record, or the cluster evicted it. Undefined if it may go on. */
export function requestedStop({
  cancelRequested,
  state,
  held,
}: Pick<JobRecord, 'cancelRequested' | 'state' | 'held'>): StopReason | undefined {
  if (cancelRequested) return stopReasonFor(cancelRequested.reason);
  return state === 'running' && held !== undefined ? 'evicted' : undefined;
}

/**
 * Whether another cluster must be informed of a cancelled job: the member that has it, or the origin of a hosted job unless
 * that origin itself ended it.
 */
export function concernsOtherCluster({ taken, handIn, placement, epoch, message, timeline }: JobRecord): boolean {
  if (!taken) return placement?.epoch === epoch;
  const isEndedHere = !handIn && timeline.at(-1)?.reason === 'Cancelled';
  return isEndedHere && stopReasonFor(message) !== 'superseded';
}

/** Stored in records, and read back by {@link stopReasonFor}: do not change them. */
const STOP_MESSAGES: Readonly<Record<StopReason, string>> = {
  cancelled: 'it was cancelled',
  'caller-left': 'the caller did not wait for the answer',
  'service-removed': 'its service was removed',
  superseded: 'another attempt took its place',
  evicted: 'the cluster took back the leave to run it',
};

/** Records contain only the sentence, so a manager that resumes a job finds the reason by it. */
function stopReasonFor(message: string): StopReason {
  const found = Object.entries(STOP_MESSAGES).find(([, sentence]) => sentence === message);
  return (found?.[0] as StopReason | undefined) ?? 'cancelled';
}
