import { OscarError } from '../lib/oscar-error.ts';

/**
 * `invalid-federation`: invalid members, clusters or addresses. `no-grant`: a federation needs a refresh token.
 * `member-refused`: a member does not accept the caller. `member-taken`: the name belongs to another service there.
 * `member-unreachable`: the member did not answer. `member-failed`: any other error of the member. `not-the-coordinator`:
 * changes are made where the federation was created. `origin-away`: the coordinator cannot be reached now. `federation-gone`:
 * the federation was undone, or ended by its owner, and must not be created again. `bad-signature`: no coordinator or worker
 * signed the request.
 */
export type FederationErrorCode =
  | 'invalid-federation'
  | 'no-grant'
  | 'member-refused'
  | 'member-taken'
  | 'member-unreachable'
  | 'member-failed'
  | 'not-the-coordinator'
  | 'origin-away'
  | 'federation-gone'
  | 'bad-signature';

export class FederationError extends OscarError<FederationErrorCode> {}

export type DelegationErrorCode =
  /** The job has a later attempt, or has ended. */
  | 'fenced'
  /** The origin does not have this job. */
  | 'job-gone'
  /** No free capacity for the offered job. */
  | 'offer-no-room'
  /** The target cannot read the input of the offered job. */
  | 'input-unreadable'
  /** The same offer was made before with another event. */
  | 'payload-differs'
  /** The caller is not the owner of the worker, or did not prove it. */
  | 'offer-not-allowed'
  /** The worker's coordinator does not answer. */
  | 'origin-silent';

export class DelegationError extends OscarError<DelegationErrorCode> {}
