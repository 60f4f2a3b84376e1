import { OscarError } from '../../lib/oscar-error.ts';

/** The kinds of errors that a script can distinguish by the exit code. */
export type ClientErrorCode =
  | 'failed'
  | 'usage'
  | 'bad-input'
  | 'not-found'
  | 'login-needed'
  | 'not-allowed'
  | 'conflict'
  | 'unreachable'
  | 'job-failed'
  | 'interrupted';

export class ClientError extends OscarError<ClientErrorCode> {}

/** The exit code that shells use for SIGINT. */
export const INTERRUPTED = 130;

/** `docs/cli.md` has the same table. */
export const EXIT_CODES: Readonly<Record<ClientErrorCode, number>> = {
  failed: 1,
  usage: 2,
  'bad-input': 3,
  'not-found': 4,
  'login-needed': 5,
  'not-allowed': 6,
  conflict: 7,
  unreachable: 8,
  'job-failed': 9,
  interrupted: INTERRUPTED,
};
