import type { JobKey, JobRecord, StopReason } from '../cluster/index.ts';
import { changeJob } from './change-job.ts';
import type { Jobs } from './jobs.ts';
import { advance, isFinal } from './state.ts';

/**
 * Writes down that a job is to end: one that waits has ended with that; one that runs is ended by whoever sees it through.
 * Resolves to the record that says so; undefined when there is nothing to be ended, or somebody has asked before.
 */
export async function requestEnd(
  key: JobKey,
  reason: StopReason,
  { store, now, place }: Pick<Jobs, 'store' | 'now' | 'place'>,
): Promise<JobRecord | undefined> {
  const message = STOPPED[reason];
  return changeJob(key, store, (job) => {
    if (isFinal(job.state) || job.state === 'committing' || job.cancelRequested) return undefined;
    const at = now();
    const ended = { state: 'cancelled', at, reason: 'Cancelled', message, place } as const;
    return job.state === 'running'
      ? { cancelRequested: { at, reason: message } }
      : advance(job, ended, { finishedAt: at });
  });
}

/** Why somebody wants a job that runs to end, or the cluster does; undefined when nobody does. */
export function wantedEnd({
  cancelRequested,
  state,
  held,
}: Pick<JobRecord, 'cancelRequested' | 'state' | 'held'>): StopReason | undefined {
  if (cancelRequested) return reasonBy(cancelRequested.reason);
  return state === 'running' && held !== undefined ? 'evicted' : undefined;
}

/** Has another cluster a job that somebody has ended, or was it taken from one that has not heard of that? */
export function concernsOthers({ taken, handIn, placement, epoch, message, timeline }: JobRecord): boolean {
  if (!taken) return placement?.epoch === epoch;
  const isEndedHere = !handIn && timeline.at(-1)?.reason === 'Cancelled';
  return isEndedHere && reasonBy(message) !== 'superseded';
}

const STOPPED: Readonly<Record<StopReason, string>> = {
  cancelled: 'it was cancelled',
  'caller-left': 'whoever called did not wait for the answer',
  'service-removed': 'its service was removed',
  superseded: 'another attempt took its place',
  evicted: 'the cluster took back the leave to run it',
};

/** Records keep the sentence alone: who takes a job up finds the reason by it. */
function reasonBy(message: string): StopReason {
  const found = Object.entries(STOPPED).find(([, sentence]) => sentence === message);
  return (found?.[0] as StopReason | undefined) ?? 'cancelled';
}
