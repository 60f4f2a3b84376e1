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

/** Also used for a service that the caller may not see: both cases must look the same. */
export function notFound(name: string): ServicesError {
  return new ServicesError('not-found', `there is no service "${name}"`);
}

export function serviceNameTaken(name: string): ServicesError {
  return new ServicesError('name-taken', `the name "${name}" is taken on this cluster: choose another`);
}
