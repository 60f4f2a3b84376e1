import { OscarError } from '../base/oscar-error.ts';

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
