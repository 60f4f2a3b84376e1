import { OscarError } from '../oscar-error.ts';

/**
 * Why a request has no usable answer.
 * - `address-refused`: the address guard does not allow the address.
 * - `untrusted`: the certificate of the server is not valid.
 * - `unreachable`: no connection, or the connection broke; `systemCode` says how.
 * - `timed-out`: the server did not answer in time.
 * - `too-large`: the body is longer than the caller accepts.
 * - `aborted`: the caller's signal ended the request.
 * - `not-http`: the server answered, but not with HTTP; or the request cannot be written as HTTP.
 */
export type HttpClientErrorCode =
  | 'address-refused'
  | 'untrusted'
  | 'unreachable'
  | 'timed-out'
  | 'too-large'
  | 'aborted'
  | 'not-http';

interface HttpClientErrorOptions extends ErrorOptions {
  /** The code of the system or of OpenSSL, as `ECONNREFUSED`. */
  readonly systemCode?: string;
}

export class HttpClientError extends OscarError<HttpClientErrorCode> {
  readonly systemCode: string | undefined;

  constructor(code: HttpClientErrorCode, message: string, { systemCode, ...options }: HttpClientErrorOptions = {}) {
    super(code, message, options);
    this.systemCode = systemCode;
  }

  /** Can the same request succeed later, without a change by anyone? */
  get isTransient(): boolean {
    return this.code === 'unreachable' || this.code === 'timed-out';
  }
}

const CUT = 'the connection was cut';

/** Codes of the system, of Node and of undici, and what they mean to a user. */
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: CUT,
  EPIPE: CUT,
  ERR_STREAM_PREMATURE_CLOSE: CUT,
  UND_ERR_SOCKET: CUT,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: CUT,
  UND_ERR_DESTROYED: CUT,
  UND_ERR_CLOSED: CUT,
  EHOSTUNREACH: 'there is no route to this host',
  ENETUNREACH: 'there is no route to this network',
  ENOTFOUND: 'the name is unknown',
  EAI_AGAIN: 'the name servers do not answer',
  EPROTO: 'its TLS is not compatible with ours',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not use TLS',
};

const TIMEOUTS: ReadonlySet<string> = new Set([
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
]);

/** The codes that OpenSSL and Node have for an invalid certificate. */
const UNTRUSTED = /CERT|^ERR_TLS_|UNABLE_TO_(GET|VERIFY)|SELF_SIGNED|HOSTNAME_MISMATCH|INVALID_CA/;

/**
 * Classifies an error of any HTTP client (ours, the AWS SDK, openid-client). Returns undefined if the connection was not the
 * cause.
 */
export function toHttpClientError(error: unknown, host: string): HttpClientError | undefined {
  for (const each of chain(error)) {
    if (each instanceof HttpClientError) return each;
    const code = 'code' in each && typeof each.code === 'string' ? each.code : '';
    const options = { cause: error, ...(code !== '' && { systemCode: code }) };
    if (TIMEOUTS.has(code) || each.name === 'TimeoutError') {
      return new HttpClientError('timed-out', `"${host}" cannot be reached: no answer in time`, options);
    }
    const reason = REASONS[code] ?? ('syscall' in each && each.syscall === 'connect' ? each.message : undefined);
    if (reason !== undefined) {
      return new HttpClientError('unreachable', `"${host}" cannot be reached: ${reason}`, options);
    }
    if (UNTRUSTED.test(code)) {
      const message = `the certificate of "${host}" is not valid: ${each.message}`;
      return new HttpClientError('untrusted', message, options);
    }
  }
  return undefined;
}

/** The error of the connection of which an {@link HttpClientError} was made, for messages that do not come from here. */
export function originalError(error: unknown): unknown {
  return error instanceof HttpClientError ? (error.cause ?? error) : error;
}

/** An error, its causes, and the parts of an `AggregateError`. */
function* chain(error: unknown): Generator<Error> {
  if (!(error instanceof Error)) return;
  yield error;
  if (error instanceof AggregateError) for (const each of error.errors) yield* chain(each);
  yield* chain(error.cause);
}
