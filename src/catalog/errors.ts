import { OscarError } from '../base/oscar-error.ts';

export type CatalogErrorCode =
  | 'not-found'
  | 'not-allowed'
  | 'name-taken'
  | 'image-refused'
  | 'invalid-setting'
  | 'old-version'
  | 'contended';

export class CatalogError extends OscarError<CatalogErrorCode> {}

/** Also for what somebody may not see: it must not be told from what is not there. */
export function notFound(name: string): CatalogError {
  return new CatalogError('not-found', `there is no service "${name}"`);
}
