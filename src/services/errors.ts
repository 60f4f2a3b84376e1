import { OscarError } from '../lib/oscar-error.ts';

export type ServicesErrorCode =
  | 'not-found'
  | 'not-allowed'
  | 'name-taken'
  | 'image-refused'
  | 'invalid-setting'
  | 'old-version'
  | 'contended';

export class ServicesError extends OscarError<ServicesErrorCode> {}

/** Also for what somebody may not see: it must not be told from what is not there. */
export function notFound(name: string): ServicesError {
  return new ServicesError('not-found', `there is no service "${name}"`);
}
