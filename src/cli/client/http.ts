import type { Readable } from 'node:stream';
import type { HttpAnswer } from '../../lib/http/index.ts';
import { ClientError } from './errors.ts';

export interface SentRequest {
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | Readable;
  /** Verify the certificate? */
  readonly verify: boolean;
  /** How long the server may send nothing; unlimited if absent. */
  readonly patienceMs?: number;
}

/** A machine that does not complete a connection in this time counts as down. */
const CONNECT_MS = 8_000;

/** Sends a request and resolves when the head of the answer was read. Connection problems are {@link ClientError}s. */
export async function send({ method, url, headers, body, verify, patienceMs }: SentRequest): Promise<HttpAnswer> {
  // Loaded here, because `--help` and completion do not need it.
  const { HttpClient } = await import('../../lib/http/index.ts');
  const client = new HttpClient({ verify, connectDeadline: CONNECT_MS, keepAlive: 0 });
  try {
    return await client.open({ method, url, body, idle: patienceMs, ...(headers && { headers }) });
  } catch (error) {
    throw await notReached(error, url);
  }
}

export async function bodyBytes({ body }: HttpAnswer, url: string): Promise<Buffer> {
  try {
    return Buffer.concat((await body.toArray()) as Buffer[]);
  } catch (error) {
    throw await notReached(error, url);
  }
}

/** Explains a connection problem in a sentence for the user. Returns any other error as it is. */
export async function notReached(problem: unknown, url: string): Promise<unknown> {
  const { originalError, toHttpClientError } = await import('../../lib/http/index.ts');
  // Classified again, because messages here name the port too.
  const error = originalError(problem);
  const { origin, host, protocol } = new URL(url);
  const failure = toHttpClientError(error, host);
  if (failure?.code === 'untrusted') {
    return new ClientError(
      'unreachable',
      `${failure.message}. If it is the right server, give its authority with NODE_EXTRA_CA_CERTS=<file>, or trust anybody there with \`ssl_verify: false\` in the configuration`,
      { cause: error },
    );
  }
  if (failure) {
    return new ClientError('unreachable', `${failure.message}. ${adviceFor(error, origin, protocol)}`, {
      cause: error,
    });
  }
  if (error instanceof Error && error.name === 'HTTPParserError') {
    const other = protocol === 'http:' ? ' Is it https?' : '';
    return new ClientError('unreachable', `${origin} does not speak HTTP.${other}`, { cause: error });
  }
  return error;
}

function adviceFor(error: unknown, origin: string, protocol: string): string {
  const { code } = error as { code?: string };
  if (protocol === 'https:' && (code === 'EPROTO' || code === 'ERR_SSL_WRONG_VERSION_NUMBER')) {
    return `Perhaps it is http: change its endpoint with \`oscar clusters add\``;
  }
  return `Is the manager at ${origin} running? \`oscar status\` shows all clusters`;
}
