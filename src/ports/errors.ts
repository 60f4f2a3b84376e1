import { OscarError } from '../lib/oscar-error.ts';

/**
 * What a store may refuse. `conflict`: the record is not in the version the caller read. `absent`: there is no such
 * record. `exists`: there already is one. `expired`: the cursor is too old, list again. `too-large`: more than the store
 * takes in one record. `refused`: the cluster does not take it as it is, and never will. `damaged`: what is stored cannot be read back, and only the operator can mend it. `unavailable`:
 * the store cannot be reached now; nothing was changed, unless the message says that it may have been.
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

/** Did somebody else change the record first? */
export function isRace(error: unknown): boolean {
  return error instanceof StoreError && RACES.includes(error.code);
}

/** Is it a store that cannot be reached now, and may be in a moment? */
export function isUnavailable(error: unknown): error is StoreError {
  return error instanceof StoreError && error.code === 'unavailable';
}
