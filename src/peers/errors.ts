import { OscarError } from '../lib/oscar-error.ts';

/**
 * `invalid-federation`: members, clusters or addresses that cannot be. `no-grant`: a federation needs a refresh token.
 * `member-refused`: a member does not accept who asks. `member-taken`: its name belongs to something else there.
 * `member-unreachable`: it did not answer. `member-failed`: anything else over there. `not-the-coordinator`: changes are made
 * where the federation was created. `origin-away`: the coordinator cannot be asked now. `federation-gone`: this was undone,
 * or ended by its owner, and is not made again. `bad-signature`: a request that no coordinator or worker made.
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
  /** Another attempt of the job is the current one, or it has ended. */
  | 'fenced'
  /** The origin knows no such job. */
  | 'job-gone'
  /** No room for what was offered. */
  | 'offer-no-room'
  /** The input of what was offered cannot be read from here. */
  | 'input-unreadable'
  /** Another event came under the same offer. */
  | 'payload-differs'
  /** The owner of the worker is somebody else, or is not proven. */
  | 'offer-not-allowed'
  /** The coordinator of the worker does not answer. */
  | 'origin-silent';

export class DelegationError extends OscarError<DelegationErrorCode> {}
