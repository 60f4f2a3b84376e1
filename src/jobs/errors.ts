import { OscarError } from '../lib/oscar-error.ts';

/**
 * `job-not-found`: there is no such job, or the caller may not see it. `job-finished`: it can no longer be cancelled.
 * `bad-page`: the cursor of a listing is invalid. `event-too-large`: the body of an invocation exceeds the limit.
 * `disk-full`: the cluster has too little disk space for new jobs.
 * `no-room`: no node of this cluster is large enough to ever run the job. `run-failed`: a synchronous call could not be
 * answered, for a reason other than the script. `run-timeout`: it took too long. `invalid-job-id`: a caller chose an
 * illegal id for a job. `job-id-taken`: another job has that id.
 */
export type JobErrorCode =
  | 'job-not-found'
  | 'job-finished'
  | 'bad-page'
  | 'event-too-large'
  | 'no-room'
  | 'disk-full'
  | 'run-failed'
  | 'run-timeout'
  | 'invalid-job-id'
  | 'job-id-taken';

export class JobError extends OscarError<JobErrorCode> {}

export const jobNotFound = (service: string, id: string) =>
  new JobError('job-not-found', `there is no job "${id}" of the service "${service}"`);

export const eventTooLarge = (most: number) =>
  new JobError('event-too-large', `an event may have up to ${most} bytes: put the data into a bucket`);
