import { OscarError } from '../base/oscar-error.ts';

export type StorageErrorCode =
  | 'bucket-exists'
  | 'bucket-not-found'
  | 'bucket-refused'
  | 'bucket-taken'
  | 'invalid-bucket'
  | 'no-job-keys'
  | 'no-user-keys';

export class StorageError extends OscarError<StorageErrorCode> {}
