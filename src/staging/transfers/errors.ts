import { OscarError } from '../../lib/oscar-error.ts';

/**
 * `input-failed`: the input could not be provided. `output-failed`: not all outputs could be uploaded.
 * `staging-unavailable`: the transfer could not run at all; it may be retried.
 */
export type StagingErrorCode = 'input-failed' | 'output-failed' | 'staging-unavailable';

export class StagingError extends OscarError<StagingErrorCode> {}
