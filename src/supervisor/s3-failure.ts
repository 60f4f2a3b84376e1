import { S3ServiceException } from '@aws-sdk/client-s3';
import { connectionFailure } from '../outbound/index.ts';
import { TransferError } from './remote-store.ts';

/** What stores answer, in words. A name that is not here is shown if it looks like one; a text of theirs never is. */
const REASONS: Readonly<Record<string, string>> = {
  NoSuchKey: 'the object does not exist',
  NotFound: 'the object does not exist',
  NoSuchBucket: 'the bucket does not exist',
  InvalidBucketName: 'the bucket has a name that the store does not take',
  PreconditionFailed: 'the object has changed',
  AccessDenied: 'access is denied',
  AllAccessDisabled: 'access is denied',
  InvalidAccessKeyId: 'the store does not know the access key',
  SignatureDoesNotMatch: 'the secret key is wrong',
  ExpiredToken: 'the keys have expired',
  InvalidToken: 'the session token is not valid',
  InvalidTokenId: 'the session token is not valid',
  RequestTimeTooSkewed: 'the clock of this machine and that of the store differ too much',
  PermanentRedirect: 'the bucket lies in another region',
  AuthorizationHeaderMalformed: 'the bucket lies in another region',
  EntityTooLarge: 'the file is larger than the store takes',
  QuotaExceeded: 'the bucket is full',
  XMinioAdminBucketQuotaExceeded: 'the bucket is full',
  XMinioStorageFull: 'the store is full',
  KeyTooLongError: 'the key is longer than the store takes',
};

/** Why a request to a store failed, after the tries that it deserves. */
export function s3Failure(cause: unknown, host: string): TransferError {
  if (cause instanceof TransferError) return cause;
  return new TransferError(reasonOf(cause, host), { cause, retryable: false });
}

function reasonOf(error: unknown, host: string): string {
  if (error instanceof S3ServiceException) {
    const status = error.$metadata.httpStatusCode ?? 0;
    const known = REASONS[error.name] ?? (status === 403 ? REASONS['AccessDenied'] : undefined);
    const name = /^[A-Za-z0-9.]{1,64}$/.test(error.name) ? ` (${error.name})` : '';
    return known ?? `the store answered ${status}${name}`;
  }
  const failure = connectionFailure(error, host);
  if (failure) return failure.message;
  if (error instanceof Error && error.name === 'AbortError') return 'another file had failed';
  // Not the store's fault but the disk's.
  if (error instanceof Error && 'syscall' in error) return error.message;
  return `"${host}" does not answer like a store`;
}
