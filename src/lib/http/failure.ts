import { HttpClientError } from './errors.ts';

/** What the system calls it, and what it means for somebody who waits for a file. */
const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'the connection was cut',
  EPIPE: 'the connection was cut',
  ERR_STREAM_PREMATURE_CLOSE: 'the connection was cut',
  ETIMEDOUT: 'no answer in time',
  EHOSTUNREACH: 'there is no way to this host',
  ENETUNREACH: 'there is no way to this network',
  ENOTFOUND: 'the name is unknown',
  EAI_AGAIN: 'the name servers do not answer',
  EPROTO: 'it does not speak TLS as we do',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS',
};

/** The codes that OpenSSL and Node have for a certificate that does not hold. */
const UNTRUSTED = /CERT|^ERR_TLS_|UNABLE_TO_(GET|VERIFY)|SELF_SIGNED|HOSTNAME_MISMATCH|INVALID_CA/;

/** The connection's part in a failure, in words; undefined when somebody was there and answered. */
export function toHttpClientError(error: unknown, host: string): HttpClientError | undefined {
  for (const each of chain(error)) {
    if (each instanceof HttpClientError) return each;
    const code = 'code' in each && typeof each.code === 'string' ? each.code : '';
    const why = REASONS[code] ?? (each.name === 'TimeoutError' ? REASONS['ETIMEDOUT'] : undefined);
    if (why !== undefined)
      return new HttpClientError('unreachable', `"${host}" cannot be reached: ${why}`, { cause: error });
    if (UNTRUSTED.test(code)) {
      return new HttpClientError('untrusted', `the certificate of "${host}" does not hold: ${each.message}`, {
        cause: error,
      });
    }
  }
  return undefined;
}

/** An error with its causes, and of several that happened side by side each one. */
function* chain(error: unknown): Generator<Error> {
  if (!(error instanceof Error)) return;
  yield error;
  if (error instanceof AggregateError) for (const each of error.errors) yield* chain(each);
  yield* chain(error.cause);
}
