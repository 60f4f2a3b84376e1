import { OscarError } from '../../lib/oscar-error.ts';

/**
 * `input-failed`: the input could not be provided. `output-failed`: not all outputs could be uploaded.
 * `store-full`: the same because a store has no space now; it may be retried. `store-away`: the same because a store does not
 * answer, or answers that it cannot now; it may be retried. `disk-full`: this machine has no space.
 * `staging-unavailable`: the transfer could not run at all; it may be retried.
 */
export type StagingErrorCode =
  | 'input-failed'
  | 'output-failed'
  | 'store-full'
  | 'store-away'
  | 'disk-full'
  | 'staging-unavailable';

export class StagingError extends OscarError<StagingErrorCode> {}

/**
 * How long results wait for a store that is full, in milliseconds. Shorter: results are lost because nobody made space over
 * night. Longer: a store that is full for good keeps the room of its jobs.
 */
export const FULL_STORE_PATIENCE = 86_400_000;

/**
 * How long results wait for a store that is away, in milliseconds. Shorter: a restart of the store loses the results of a run of
 * hours. Longer: a store that is gone for good delays the end of the job.
 */
export const AWAY_STORE_PATIENCE = 600_000;

/** How long results wait for the store that rejected them; 0 if it would reject them again. */
export function storePatience(error: unknown): number {
  if (!(error instanceof StagingError)) return 0;
  if (error.code === 'store-full') return FULL_STORE_PATIENCE;
  return error.code === 'store-away' ? AWAY_STORE_PATIENCE : 0;
}
