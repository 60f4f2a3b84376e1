import { OscarError } from '../lib/oscar-error.ts';

/**
 * `job-not-found`: there is no such job, or none for this caller. `job-finished`: it can no longer be cancelled.
 * `bad-page`: the cursor of a listing is none. `event-too-large`: more than an invocation may bring. `no-room`: no node of this cluster could ever run it.
 * `run-failed`: a synchronous call could not be answered, for a reason that is not the script's. `run-timeout`: it took
 * too long. `invalid-job-id`: a caller gave a job an id that it may not have. `job-id-taken`: there is another job of that
 * id.
 */
export type JobErrorCode =
  | 'job-not-found'
  | 'job-finished'
  | 'bad-page'
  | 'event-too-large'
  | 'no-room'
  | 'run-failed'
  | 'run-timeout'
  | 'invalid-job-id'
  | 'job-id-taken';

export class JobError extends OscarError<JobErrorCode> {}

export const jobNotFound = (service: string, id: string) =>
  new JobError('job-not-found', `there is no job "${id}" of the service "${service}"`);

export const eventTooLarge = (most: number) =>
  new JobError('event-too-large', `an event may have up to ${most} bytes: put the data into a bucket`);
