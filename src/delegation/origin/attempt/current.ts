import type { JobKey, JobProgress, JobRecord } from '../../../cluster/index.ts';
import { changeJob } from '../../../jobs/index.ts';
import { DelegationError } from '../../errors.ts';
import type { AttemptKey } from '../../terms.ts';
import { NO_METERS } from '../meters.ts';
import type { Asker, OriginDeps } from '../origin.ts';

/** The job that somebody speaks of. Throws `job-gone` where their federation has no such job. */
export async function spokenOf(
  { job }: AttemptKey,
  { service }: Asker,
  { store }: Pick<OriginDeps, 'store'>,
): Promise<JobRecord> {
  const record = await store.get(job);
  // Of a job of another service it is not said that there is one.
  if (record?.serviceUid !== service.uid) {
    throw new DelegationError('job-gone', `there is no job "${job.id}" of "${job.service}" any more`);
  }
  return record;
}

/** Is this the attempt that the record says this member has, or had when it ended? */
export function isItsAttempt({ epoch, placement }: JobRecord, attempt: AttemptKey, { member }: Asker): boolean {
  return epoch === attempt.epoch && placement?.epoch === epoch && placement.member === member;
}

/**
 * Changes a job because a member said something, as {@link changeJob} does. Another manager may have offered it a moment ago,
 * and this one not heard of that yet: before nothing is changed, and the member told that it has no say, the record is read
 * as it is now. A run would end for a no.
 */
export async function changeAsTold(
  key: JobKey,
  store: OriginDeps['store'],
  decide: (record: JobRecord) => Partial<JobProgress> | undefined,
  known: JobRecord,
): Promise<JobRecord | undefined> {
  const changed = await changeJob(key, store, decide, known);
  if (changed) return changed;
  const now = await store.look(key);
  return now && changeJob(key, store, decide, now);
}

/** For who speaks for an attempt that does not count any more. */
export function fenced(
  { job, epoch }: AttemptKey,
  { meters = NO_METERS }: Pick<OriginDeps, 'meters'>,
): DelegationError {
  meters.fenced();
  return new DelegationError('fenced', `attempt ${epoch} of the job "${job.id}" is not the current one`);
}
