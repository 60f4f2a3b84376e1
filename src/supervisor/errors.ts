import { OscarError } from '../base/oscar-error.ts';

/**
 * `input-failed`: the input is not there for the script. `output-failed`: not everything that the script made is where it
 * belongs. `staging-unavailable`: nobody could do the work at all; it may be tried again.
 */
export type SupervisorErrorCode = 'input-failed' | 'output-failed' | 'staging-unavailable';

export class SupervisorError extends OscarError<SupervisorErrorCode> {}
