import { OscarError } from '../../lib/oscar-error.ts';

/**
 * `input-failed`: the input could not be provided. `output-failed`: not all outputs could be uploaded.
 * `store-full`: the same because a store has no space now; it may be retried. `disk-full`: this machine has no space.
 * `staging-unavailable`: the transfer could not run at all; it may be retried.
 */
export type StagingErrorCode = 'input-failed' | 'output-failed' | 'store-full' | 'disk-full' | 'staging-unavailable';

export class StagingError extends OscarError<StagingErrorCode> {}

/**
 * How long results wait for a store that is full, in milliseconds. Shorter: results are lost because nobody made space over
 * night. Longer: a store that is full for good keeps the room of its jobs.
 */
export const FULL_STORE_PATIENCE = 86_400_000;
