import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type HttpAnswer,
  HttpClient,
  type HttpHead,
  originalError,
  toHttpClientError,
} from '../../../lib/http/index.ts';
import { backoffDelay } from '../../../lib/retry.ts';
import { StoreError, type StoreKeys } from '../../../ports/index.ts';
import { SigningSecret, signRequest } from '../../../s3-server/index.ts';

interface SignedHttpClientOptions {
  /** The address of the store for the manager. */
  readonly endpoint: string;
  readonly region: string;
  /** Whether its certificate is verified. */
  readonly verify: boolean;
}

export interface StoreRequest {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** Not percent-encoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly service?: 's3' | 'sts';
  /** A response with more bytes is not read. */
  readonly maxBytes?: number;
  /** Milliseconds in which the store may send nothing. */
  readonly deadline?: number;
  /** The request is not repeated, whatever happens to it. */
  readonly once?: boolean;
}

export interface StoreAnswer extends Pick<HttpHead, 'headers'> {
  readonly body: Buffer;
}

/** A shorter time gives up on a store that syncs a slow disk; with a longer one, creating a service waits for a dead store. */
const DEADLINE = 10_000;

const CONNECT_DEADLINE = 3_000;

/** Requests are repeated if the store has closed the connection meanwhile, or fails with a server error. */
const TRIES = 3;
const RETRY = { first: 100, longest: 200 };

/** Larger than any complete response: a list of a thousand keys of maximum length. */
const MOST_BYTES = 16 * 1024 * 1024;

/** Sends signed requests to a store of the operator. A request may be sent twice, unless it has `once`. */
export class SignedHttpClient {
  readonly #options: SignedHttpClientOptions;
  readonly #client: HttpClient;
  readonly #secrets = new WeakMap<object, SigningSecret>();

  constructor(options: SignedHttpClientOptions) {
    this.#options = options;
    this.#client = new HttpClient({ verify: options.verify, connectDeadline: CONNECT_DEADLINE });
  }

  /** Throws {@link StoreResponseError} if the store rejects the request, and `unavailable` if it does not answer properly. */
  async send(request: StoreRequest, keys: StoreKeys): Promise<StoreAnswer> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#try(request, keys);
      } catch (error) {
        const passes =
          error instanceof StoreResponseError ? isServerFailure(error) : toHttpClientError(error, '') !== undefined;
        if (!passes) throw error;
        if (tries === TRIES || request.once) throw this.#unavailable(error);
        await pause(backoffDelay(tries, RETRY));
      }
    }
  }

  close(): void {
    this.#client.close();
  }

  async #try(request: StoreRequest, keys: StoreKeys): Promise<StoreAnswer> {
    const { endpoint, region } = this.#options;
    const body = typeof request.body === 'string' ? Buffer.from(request.body) : (request.body ?? new Uint8Array());
    const { url, headers } = signRequest({
      ...request,
      endpoint,
      region,
      body,
      accessKey: keys.accessKey.reveal(),
      secret: this.#signingSecretFor(keys),
      service: request.service ?? 's3',
      now: isWrite(request) ? requestDate(Date.now()) : Date.now(),
    });
    const { method, deadline: idle = DEADLINE } = request;
    return receive(await this.#client.open({ method, url, headers, body, idle }), request);
  }

  /** Cached, because deriving a signing key takes four hashes, and it stays the same all day. */
  #signingSecretFor(keys: StoreKeys): SigningSecret {
    const known = this.#secrets.get(keys.secretKey);
    if (known) return known;
    const made = new SigningSecret(keys.secretKey.reveal());
    this.#secrets.set(keys.secretKey, made);
    return made;
  }

  #unavailable(failure: unknown): StoreError {
    const host = new URL(this.#options.endpoint).host;
    // Classified again, because messages here name the port too.
    const cause = originalError(failure);
    const why =
      toHttpClientError(cause, host)?.message ??
      (cause instanceof StoreResponseError ? cause.message : `"${host}" does not answer`);
    const message = `the object store cannot be used now: ${why}: what was asked for may be done in part; try it again`;
    return new StoreError('unavailable', message, { cause });
  }
}

const isWrite = ({ method }: StoreRequest) => method !== 'GET' && method !== 'HEAD';

async function receive(
  { status, headers, body: stream }: HttpAnswer,
  { method, path, maxBytes: mostBytes = MOST_BYTES }: StoreRequest,
): Promise<StoreAnswer> {
  const refused = status >= 300;
  const announced = Number(headers['content-length'] ?? 0);
  const parts: Buffer[] = [];
  let bytes = 0;
  if (refused || method === 'HEAD' || announced <= mostBytes) {
    for await (const part of stream as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > (refused ? MOST_BYTES : mostBytes)) break;
      parts.push(part);
    }
  } else bytes = announced;
  const body = Buffer.concat(parts);
  if (refused) throw StoreResponseError.parse(status, body, `${method} ${path}`);
  if (bytes <= mostBytes || method === 'HEAD') return { headers, body };
  stream.destroy();
  const size = announced > 0 ? `${announced} bytes` : 'more bytes than that';
  throw new StoreError('too-large', `the object "${path.slice(1)}" has ${size}: at most ${mostBytes} are read`);
}

/**
 * The store rejected a request; `errorCode` is the code of S3. Callers catch the codes that they expect. Any other code means
 * that something is wrong with the store, so the error counts as `unavailable` and can be retried after a repair.
 */
export class StoreResponseError extends StoreError {
  readonly status: number;
  readonly errorCode: string;

  constructor(status: number, reason: string, what: string) {
    super('unavailable', `the object store refused ${what}: ${HINTS[reason] ?? `${status} ${reason}`.trim()}`);
    this.status = status;
    this.errorCode = reason;
  }

  /** S3 answers with XML, the admin API with JSON. The answer to a HEAD has a status only. */
  static parse(status: number, body: Uint8Array, what: string): StoreResponseError {
    const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString();
    const reason = /<Code>([^<]{1,100})<\/Code>/.exec(text)?.[1] ?? /"Code":"([^"]{1,100})"/.exec(text)?.[1];
    return new StoreResponseError(status, reason ?? STATUSES[status] ?? '', what);
  }
}

const STATUSES: Readonly<Record<number, string>> = { 404: 'NotFound', 412: 'PreconditionFailed' };

/** Errors that only the operator can fix. */
const HINTS: Readonly<Record<string, string>> = {
  InvalidAccessKeyId: 'it does not know the access key: look at MINIO_ACCESS_KEY',
  SignatureDoesNotMatch: 'the secret key is wrong: look at MINIO_SECRET_KEY',
  AccessDenied:
    'access is denied: MINIO_ACCESS_KEY must be that of an administrator of the store, or with OSCAR_EXTERNAL_STORE=s3 ' +
    'of an account with all rights on S3',
  RequestTimeTooSkewed: 'its clock and that of this machine differ too much',
  XMinioStorageFull: 'it is full: delete objects that are not needed, or enlarge it',
};

/** Temporary errors, and errors that the operator can fix: the same request may succeed later. */
const MENDABLE: ReadonlySet<string> = new Set([
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'ExpiredToken',
  'InvalidToken',
  'InvalidTokenId',
  'RequestTimeTooSkewed',
  'RequestTimeout',
  'OperationAborted',
  'ConditionalRequestConflict',
]);

const PASSING: ReadonlySet<number> = new Set([408, 425, 429]);

/** The store failed or is overloaded. 501 is permanent: the store does not implement the request. */
export const isServerFailure = ({ status }: StoreResponseError) => status >= 500 && status !== 501;

/** Describes an error that will not change however often the request is repeated; undefined for all others. */
export function describePermanentFailure(error: unknown): string | undefined {
  if (!(error instanceof StoreResponseError) || error.status < 400 || isServerFailure(error)) return undefined;
  if (PASSING.has(error.status) || MENDABLE.has(error.errorCode)) return undefined;
  const name = /^[A-Za-z0-9.]{1,64}$/.test(error.errorCode) ? ` (${error.errorCode})` : '';
  return `the store answered ${error.status}${name}`;
}

/** The result of the work, or undefined if the store answers with one of these error codes. */
export async function undefinedOn<T>(reasons: readonly string[], work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (hasErrorCode(error, ...reasons)) return undefined;
    throw error;
  }
}

export function hasErrorCode(error: unknown, ...reasons: readonly string[]): error is StoreResponseError {
  return error instanceof StoreResponseError && reasons.includes(error.errorCode);
}

/** The maximum age of the date of a signed request: S3 defines it, and MinIO and other stores enforce it. */
const OLDEST_MS = 15 * 60_000;

const deadlines = new AsyncLocalStorage<number>();

/**
 * The store rejects writes of this work once its own clock has passed this time, however long the sender was paused: the
 * requests are dated so that they are too old by then. Nested work has the earlier of both deadlines.
 */
export function withWriteDeadline<T>(time: number, work: () => Promise<T>): Promise<T> {
  return deadlines.run(Math.min(time, deadlines.getStore() ?? time), work);
}

/** The date of a write that is sent now. */
function requestDate(now: number): number {
  const deadline = deadlines.getStore();
  return deadline === undefined ? now : Math.min(now, deadline - OLDEST_MS);
}
