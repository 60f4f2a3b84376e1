import { hash } from 'node:crypto';
import type { Readable } from 'node:stream';
import {
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { type Agents, toHttpClientError } from '../../lib/http/index.ts';
import type { ObjectAt, S3Access } from '../../model/job/index.ts';
import {
  AWAY_STATUSES,
  type Connections,
  FULL_STATUS,
  type OutputFile,
  type RemoteStore,
  readAddress,
  TransferError,
  type WrittenObject,
} from './remote-store.ts';

/** Larger files are uploaded in parts of this size: S3's minimum, because a part is in memory until its upload ends. */
const PART = 5 * 1024 * 1024;

/** Concurrent parts of one file. */
const PARTS_AT_ONCE = 2;

/** S3's limit for the parts of an object. */
const MOST_PARTS = 10_000;

/** A store with the S3 protocol. The SDK retries requests itself, so an error here is final. */
export function s3Store(clients: S3Clients, access: S3Access): RemoteStore {
  const { endpoint, region } = access;
  const host = endpoint === undefined ? `s3.${region}.amazonaws.com` : readAddress(endpoint).hostname;
  const client = clients.client(access);
  const failed = (error: unknown): never => {
    throw toS3TransferError(error, host);
  };

  return {
    async read({ bucket, key }, eTag) {
      const condition = eTag === undefined ? {} : { IfMatch: `"${eTag}"` };
      const order = new GetObjectCommand({ Bucket: bucket, Key: key, ...condition });
      const answer = await client.send(order).catch(failed);
      return { body: answer.Body as Readable, bytes: answer.ContentLength, host };
    },
    async write(at, file, { attempt, inputLabel }, abortSignal) {
      const Metadata = { 'oscar-attempt': attempt, ...(inputLabel !== undefined && { 'oscar-input': inputLabel }) };
      const params = { Bucket: at.bucket, Key: at.key, Metadata };
      if (file.bytes > PART) return uploadInParts(client, params, file, abortSignal).catch(failed);
      // In memory, because the SDK can only repeat a request whose body it can read again.
      const body = Buffer.concat(await file.content().toArray());
      const order = new PutObjectCommand({ ...params, Body: body });
      return unquoteETag(await client.send(order, { abortSignal }).catch(failed));
    },
    written: (at, signal) => findWritten(client, at, signal),
  };
}

interface Params {
  readonly Bucket: string;
  readonly Key: string;
  readonly Metadata: Record<string, string>;
}

async function uploadInParts(client: S3Client, params: Params, file: OutputFile, signal: AbortSignal) {
  // Loaded on demand, because most outputs are small.
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
    return unquoteETag(await new Upload(upload).done());
  } finally {
    signal.removeEventListener('abort', stop);
    body.destroy();
  }
}

/** Keys without read permission get an error here: then the file is written again. */
async function findWritten(
  client: S3Client,
  { bucket, key }: ObjectAt,
  abortSignal: AbortSignal,
): Promise<WrittenObject | undefined> {
  try {
    const head = await client.send(new HeadObjectCommand({ Bucket: bucket, Key: key }), { abortSignal });
    const [attempt, bytes, eTag] = [head.Metadata?.['oscar-attempt'], head.ContentLength, unquoteETag(head)];
    return attempt === undefined || bytes === undefined || eTag === undefined ? undefined : { attempt, bytes, eTag };
  } catch {
    return undefined;
  }
}

const unquoteETag = ({ ETag }: { readonly ETag?: string | undefined }) => ETag?.replace(/^(W\/)?"(.*)"$/, '$2');

/** Descriptions of S3 error codes. An unknown code is shown if it looks like one; messages of stores never are. */
const REASONS: Readonly<Record<string, string>> = {
  NoSuchKey: 'the object does not exist',
  NotFound: 'the object does not exist',
  NoSuchBucket: 'the bucket does not exist',
  InvalidBucketName: 'the store does not accept the name of the bucket',
  PreconditionFailed: 'the object has changed',
  AccessDenied: 'access is denied',
  AllAccessDisabled: 'access is denied',
  InvalidAccessKeyId: 'the store does not know the access key',
  SignatureDoesNotMatch: 'the secret key is wrong',
  ExpiredToken: 'the keys have expired',
  InvalidToken: 'the session token is not valid',
  InvalidTokenId: 'the session token is not valid',
  RequestTimeTooSkewed: 'the clock of this machine and that of the store differ too much',
  PermanentRedirect: 'the bucket is in another region',
  AuthorizationHeaderMalformed: 'the bucket is in another region',
  EntityTooLarge: 'the file is larger than the store accepts',
  QuotaExceeded: 'the bucket is full',
  XMinioAdminBucketQuotaExceeded: 'the bucket is full',
  XMinioStorageFull: 'the store is full',
  KeyTooLongError: 'the key is longer than the store accepts',
};

/** Describes why a request to a store failed, after the SDK's retries. */
export function toS3TransferError(cause: unknown, host: string): TransferError {
  if (cause instanceof TransferError) return cause;
  const status = cause instanceof S3ServiceException ? (cause.$metadata.httpStatusCode ?? 0) : 0;
  const full = status === FULL_STATUS || (cause instanceof S3ServiceException && cause.name === 'XMinioStorageFull');
  const away = AWAY_STATUSES.includes(status) || toHttpClientError(cause, host)?.isTransient === true;
  return new TransferError(explainFailure(cause, host), { cause, retryable: false, full, away });
}

function explainFailure(error: unknown, host: string): string {
  if (error instanceof S3ServiceException) {
    const status = error.$metadata.httpStatusCode ?? 0;
    const known = REASONS[error.name] ?? (status === 403 ? REASONS['AccessDenied'] : undefined);
    const name = /^[A-Za-z0-9.]{1,64}$/.test(error.name) ? ` (${error.name})` : '';
    return known ?? `the store answered ${status}${name}`;
  }
  const failure = toHttpClientError(error, host);
  if (failure) return failure.message;
  if (error instanceof Error && error.name === 'AbortError') return 'another file had failed';
  // An error of the local disk, not of the store.
  if (error instanceof Error && 'syscall' in error) return error.message;
  return `"${host}" does not answer like a store`;
}

/**
 * Keys belong to one job, so a client is rarely used more than a few times; an old one only keeps its keys in memory.
 */
const MAX_CLIENTS = 32;
const LIFETIME = 300_000;

/** A store that sends nothing for this long is considered gone; a healthy busy one responds within seconds. */
const IDLE_DEADLINE = 60_000;

/** The limit for a whole request. Longer than the largest part takes on a slow connection. */
const REQUEST_DEADLINE = 600_000;

/** Attempts per request. The SDK knows which errors are retryable, and increases the pauses. */
const TRIES = 4;

interface CachedClient {
  readonly client: S3Client;
  readonly until: number;
}

/**
 * Caches a client for each set of keys. Clients share connections, so they are never destroyed: that would close them.
 */
export class S3Clients {
  readonly #connections: Connections;
  readonly #now: () => number;
  readonly #handlers = new WeakMap<Agents, NodeHttpHandler>();
  readonly #kept = new Map<string, CachedClient>();

  constructor(connections: Connections, now: () => number = () => performance.now()) {
    this.#connections = connections;
    this.#now = now;
  }

  get size(): number {
    return this.#kept.size;
  }

  client(access: S3Access): S3Client {
    const key = fingerprint(access);
    const known = this.#kept.get(key);
    this.#forget();
    const client = known?.client ?? this.#make(access);
    // Moved to the end: the first entry is the least recently used.
    this.#kept.delete(key);
    this.#kept.set(key, { client, until: this.#now() + LIFETIME });
    return client;
  }

  #forget(): void {
    for (const [key, { until }] of this.#kept) {
      if (until > this.#now() && this.#kept.size < MAX_CLIENTS) return;
      this.#kept.delete(key);
    }
  }

  /** Sets every option that the SDK would otherwise read from files and environment variables. */
  #make(access: S3Access): S3Client {
    const { endpoint, region, accessKey, secretKey, sessionToken } = access;
    return new S3Client({
      region,
      ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
      credentials: {
        accessKeyId: accessKey.reveal(),
        secretAccessKey: secretKey.reveal(),
        ...(sessionToken && { sessionToken: sessionToken.reveal() }),
      },
      requestHandler: this.#handler(this.#connections.agents(access)),
      maxAttempts: TRIES,
      retryMode: 'standard',
      // Stores other than Amazon's do not support the newer checksums.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      expectContinueHeader: false,
      followRegionRedirects: false,
      disableS3ExpressSessionAuth: true,
      defaultsMode: 'standard',
      useDualstackEndpoint: false,
      useFipsEndpoint: false,
      useArnRegion: false,
      authSchemePreference: ['aws.auth#sigv4'],
      sigv4aSigningRegionSet: [region],
      userAgentAppId: 'oscar',
    });
  }

  #handler(agents: Agents): NodeHttpHandler {
    const known = this.#handlers.get(agents);
    if (known) return known;
    const made = new NodeHttpHandler({
      httpAgent: agents.http,
      httpsAgent: agents.https,
      socketTimeout: IDLE_DEADLINE,
      requestTimeout: REQUEST_DEADLINE,
      throwOnRequestTimeout: true,
    });
    this.#handlers.set(agents, made);
    return made;
  }
}

function fingerprint(access: S3Access): string {
  const { endpoint = '', region, accessKey, secretKey, sessionToken, verify, guarded } = access;
  const keys = [accessKey.reveal(), secretKey.reveal(), sessionToken?.reveal() ?? ''];
  return hash('sha256', JSON.stringify([endpoint, region, ...keys, verify, guarded]));
}
