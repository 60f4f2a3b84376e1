import { OscarError } from '../base/oscar-error.ts';

/**
 * What a store may refuse. `conflict`: the record is not in the version the caller read. `absent`: there is no such
 * record. `exists`: there already is one. `expired`: the cursor is too old, list again. `unavailable`: the store cannot
 * be reached now, nothing was changed.
 */
export type StoreErrorCode = 'conflict' | 'absent' | 'exists' | 'expired' | 'unavailable';

export class StoreError extends OscarError<StoreErrorCode> {}
