import { OscarError } from '../../lib/oscar-error.ts';

/**
 * `input-failed`: the input is not there for the script. `output-failed`: not everything that the script made is where it
 * belongs. `staging-unavailable`: nobody could do the work at all; it may be tried again.
 */
export type StagingErrorCode = 'input-failed' | 'output-failed' | 'staging-unavailable';

export class StagingError extends OscarError<StagingErrorCode> {}
