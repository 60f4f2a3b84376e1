import { OscarError } from '../../lib/oscar-error.ts';

/** What can go wrong for somebody at a terminal, as far as a script would want to tell it apart. */
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

/** As shells have it for a program that SIGINT ended. */
export const INTERRUPTED = 130;

/** The exit code of each; `docs/cli.md` has the same table. */
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
