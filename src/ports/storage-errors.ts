import { OscarError } from '../lib/oscar-error.ts';

export type StorageErrorCode =
  | 'bucket-exists'
  | 'bucket-not-found'
  | 'bucket-refused'
  | 'bucket-taken'
  | 'invalid-bucket'
  | 'no-job-keys'
  | 'no-user-keys'
  | 'provider-refused'
  | 'provider-unavailable';

export class StorageError extends OscarError<StorageErrorCode> {}
