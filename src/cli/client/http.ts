import { type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Readable } from 'node:stream';
import { ClientError } from './errors.ts';

export interface SentRequest {
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | Readable;
  /** Verify the certificate? */
  readonly verify: boolean;
  /** How long nothing may be heard; without it, for ever. */
  readonly patienceMs?: number;
}

/** Nobody answers a SYN in that time: it is not there. */
const CONNECT_MS = 8_000;

/** Sends a request and resolves to the answer, whose body is yet to be read. That nobody is there is told in sentences. */
export async function send({
  method,
  url,
  headers = {},
  body,
  verify,
  patienceMs,
}: SentRequest): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const secure = url.startsWith('https:');
  // Node would leave it out of a DELETE, which no server expects to have a body then.
  const length = typeof body === 'string' || body instanceof Uint8Array ? Buffer.byteLength(body) : undefined;
  const framed = { ...headers, ...(length !== undefined && { 'content-length': String(length) }) };
  const options = { method, headers: framed, agent: false, ...(secure && { rejectUnauthorized: verify }) };
  const sent = (secure ? requestHttps : requestHttp)(url, options, resolve);
  const slow = setTimeout(() => sent.destroy(timeout()), CONNECT_MS);
  sent.on('socket', (socket) => socket.once(secure ? 'secureConnect' : 'connect', () => clearTimeout(slow)));
  if (patienceMs !== undefined) sent.setTimeout(patienceMs, () => sent.destroy(timeout()));
  sent.on('error', reject);
  if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) sent.end(body);
  else {
    body.on('error', (error) => sent.destroy(error));
    body.pipe(sent);
  }
  try {
    return await promise;
  } catch (error) {
    throw await notReached(error, url);
  } finally {
    clearTimeout(slow);
  }
}

export async function bodyBytes(answer: IncomingMessage, url: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of answer) chunks.push(chunk as Buffer);
  } catch (error) {
    throw await notReached(error, url);
  }
  return Buffer.concat(chunks);
}

const timeout = () => Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' });

/** What went wrong on the way there, in sentences; anything else as it is. */
export async function notReached(error: unknown, url: string): Promise<unknown> {
  // It brings much along, and most commands reach whom they want.
  const { toHttpClientError } = await import('../../lib/http/index.ts');
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
  const code = (error as { code?: unknown }).code;
  // What is there answers, but not in HTTP.
  if (typeof code === 'string' && code.startsWith('HPE_')) {
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
