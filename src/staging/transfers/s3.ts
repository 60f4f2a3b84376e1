import type { Readable } from 'node:stream';
import {
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  type S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { toHttpClientError } from '../../lib/http/index.ts';
import type { ObjectAt, S3Access } from '../../model/job/index.ts';
import { type OutputFile, type RemoteStore, readAddress, TransferError, type WrittenObject } from './remote-store.ts';
import type { S3Clients } from './s3-clients.ts';

/** Larger files go in parts of this size: the smallest that S3 takes, since a part lies in memory until it has arrived. */
const PART = 5 * 1024 * 1024;

/** Parts of one file on their way at the same time. */
const PARTS_AT_ONCE = 2;

/** Most parts that an object may have. */
const MOST_PARTS = 10_000;

/** A store that speaks S3. The SDK tries a request again by itself, so that what fails here has failed for good. */
export function s3Store(clients: S3Clients, access: S3Access): RemoteStore {
  const { endpoint, region } = access;
  const host = endpoint === undefined ? `s3.${region}.amazonaws.com` : readAddress(endpoint).hostname;
  const client = clients.client(access);
  const failed = (error: unknown): never => {
    throw s3Failure(error, host);
  };

  return {
    async read({ bucket, key }, eTag) {
      const condition = eTag === undefined ? {} : { IfMatch: `"${eTag}"` };
      const order = new GetObjectCommand({ Bucket: bucket, Key: key, ...condition });
      const answer = await client.send(order).catch(failed);
      return { body: answer.Body as Readable, bytes: answer.ContentLength, host };
    },
    async write(at, file, attempt, abortSignal) {
      const params = { Bucket: at.bucket, Key: at.key, Metadata: { 'oscar-attempt': attempt } };
      if (file.bytes > PART) return inParts(client, params, file, abortSignal).catch(failed);
      // In memory: a request can be repeated only with a body that is still there.
      const body = Buffer.concat(await file.content().toArray());
      const order = new PutObjectCommand({ ...params, Body: body });
      return bareETag(await client.send(order, { abortSignal }).catch(failed));
    },
    written: (at, signal) => writtenAt(client, at, signal),
  };
}

interface Params {
  readonly Bucket: string;
  readonly Key: string;
  readonly Metadata: Record<string, string>;
}

async function inParts(client: S3Client, params: Params, file: OutputFile, signal: AbortSignal) {
  // Most outputs are small: what only large ones need is loaded when there is one.
  const { Upload } = await import('@aws-sdk/lib-storage');
  signal.throwIfAborted();
  const abortController = new AbortController();
  const stop = () => abortController.abort();
  signal.addEventListener('abort', stop);
  const body = file.content();
  try {
    const partSize = Math.max(PART, Math.ceil(file.bytes / MOST_PARTS));
    const whole = { ...params, Body: body, ContentLength: file.bytes };
    const upload = { client, params: whole, partSize, queueSize: PARTS_AT_ONCE, abortController };
    return bareETag(await new Upload(upload).done());
  } finally {
    signal.removeEventListener('abort', stop);
    body.destroy();
  }
}

/** Keys for writing alone may not look: then nobody can say, and the file is written again. */
async function writtenAt(
  client: S3Client,
  { bucket, key }: ObjectAt,
  abortSignal: AbortSignal,
): Promise<WrittenObject | undefined> {
  try {
    const head = await client.send(new HeadObjectCommand({ Bucket: bucket, Key: key }), { abortSignal });
    const [attempt, bytes, eTag] = [head.Metadata?.['oscar-attempt'], head.ContentLength, bareETag(head)];
    return attempt === undefined || bytes === undefined || eTag === undefined ? undefined : { attempt, bytes, eTag };
  } catch {
    return undefined;
  }
}

const bareETag = ({ ETag }: { readonly ETag?: string | undefined }) => ETag?.replace(/^(W\/)?"(.*)"$/, '$2');

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
  const failure = toHttpClientError(error, host);
  if (failure) return failure.message;
  if (error instanceof Error && error.name === 'AbortError') return 'another file had failed';
  // Not the store's fault but the disk's.
  if (error instanceof Error && 'syscall' in error) return error.message;
  return `"${host}" does not answer like a store`;
}
