import { OscarError } from '../base/oscar-error.ts';

export type StorageErrorCode =
  | 'bucket-exists'
  | 'bucket-not-found'
  | 'bucket-refused'
  | 'bucket-taken'
  | 'invalid-bucket';

export class StorageError extends OscarError<StorageErrorCode> {}
