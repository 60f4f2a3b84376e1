import { OscarError } from '../lib/oscar-error.ts';

/**
 * `conflict`: the record does not have the version that the caller read. `absent`: there is no such record. `exists`: there
 * already is one. `expired`: the cursor is too old or invalid, list again. `too-large`: more than fits into one record.
 * `refused`: the cluster rejects the record, and a retry would not help. `damaged`: the stored record cannot be read, and
 * only the operator can repair it. `unavailable`: the store cannot be reached now; nothing was changed, unless the message
 * says that it may have been.
 */
export type StoreErrorCode =
  | 'conflict'
  | 'absent'
  | 'exists'
  | 'expired'
  | 'too-large'
  | 'refused'
  | 'damaged'
  | 'unavailable';

export class StoreError extends OscarError<StoreErrorCode> {}

const RACES: readonly StoreErrorCode[] = ['conflict', 'exists', 'absent'];

/** Whether another writer changed the record first. */
export function isRace(error: unknown): boolean {
  return error instanceof StoreError && RACES.includes(error.code);
}

/** Whether the store cannot be reached now; a retry may succeed. */
export function isUnavailable(error: unknown): error is StoreError {
  return error instanceof StoreError && error.code === 'unavailable';
}

export type StorageErrorCode =
  | 'bucket-exists'
  | 'bucket-not-found'
  | 'bucket-refused'
  | 'bucket-taken'
  | 'invalid-bucket'
  | 'no-job-keys'
  | 'no-user-keys'
  | 'provider-refused'
  | 'provider-unavailable';

export class StorageError extends OscarError<StorageErrorCode> {}
