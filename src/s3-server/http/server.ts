import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ConnectionLimits, limitConnections } from '../../lib/http/index.ts';
import { S3Error } from '../lib/errors.ts';
import { escapeXml } from '../lib/xml.ts';
import { receiveInMemory } from '../payload/receive.ts';
import { type RequestTarget, readTarget } from '../signature/request-target.ts';
import type { StoreDatabase } from '../store/database.ts';
import { authenticate, authenticateSts, precheckSts } from './authenticate.ts';
import { type CorsRule, CorsRules, corsHeaders, preflight } from './cors.ts';
import { Exchange, type S3Response, type Store } from './exchange.ts';
import { findOperation } from './route.ts';
import { assumeRole, stsError } from './sts.ts';

/** Closes a connection without traffic for this long. There is no limit for a whole upload. */
const IDLE_TIMEOUT = 120_000;
const HEADERS_TIMEOUT = 30_000;
const KEEP_ALIVE = 65_000;

/** A session token and a signature in the query take less than 4 KiB, metadata less than 2 KiB. */
const MAX_HEADER_BYTES = 32 * 1024;

/**
 * How long a stopping server waits for running requests. A longer time delays the stop, a shorter one cuts uploads off.
 */
const STOP_TIME = 5_000;

/** The body of an STS request: a few fields and a policy of 2,048 characters, each at most nine bytes when form-encoded. */
const MAX_FORM_BYTES = 32 * 1024;

/** Twice the fields that STS knows. */
const MAX_FORM_FIELDS = 16;

/** Called with errors that the client did not cause. */
export type ReportFault = (error: unknown, about: { requestId: string; method: string; path: string }) => void;

export interface ServedStore extends Store {
  readonly database: StoreDatabase;
  readonly report: ReportFault;
}

/** Serves the store over HTTP. */
export class S3Server {
  readonly #store: ServedStore;
  readonly #server: Server;
  readonly #inFlight = new Set<Promise<void>>();
  readonly #cors = new CorsRules();
  #closing = false;
  #requests = 0;
  #endpoint = '';

  constructor(store: ServedStore, connections?: ConnectionLimits) {
    this.#store = store;
    this.#server = createServer({
      requestTimeout: 0,
      headersTimeout: HEADERS_TIMEOUT,
      keepAliveTimeout: KEEP_ALIVE,
      maxHeaderSize: MAX_HEADER_BYTES,
      noDelay: true,
    });
    if (connections) limitConnections(this.#server, connections);
    this.#server.timeout = IDLE_TIMEOUT;
    this.#server.on('request', (request, response) => this.#begin(request, response, false));
    this.#server.on('checkContinue', (request, response) => this.#begin(request, response, true));
  }

  /** The URL at which the server listens; empty until it does. */
  get endpoint(): string {
    return this.#endpoint;
  }

  async listen({ host, port }: { readonly host: string; readonly port: number }): Promise<AddressInfo> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#server.once('error', reject);
    this.#server.listen(port, host, resolve);
    await promise;
    this.#server.off('error', reject);
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the server has no TCP port');
    const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    this.#endpoint = `http://${name}:${address.port}`;
    return address;
  }

  /** Waits a few seconds for running requests, then closes their connections. */
  async close(): Promise<void> {
    this.#closing = true;
    if (!this.#server.listening) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    this.#server.closeIdleConnections();
    const timer = setTimeout(() => this.#server.closeAllConnections(), STOP_TIME);
    await promise;
    clearTimeout(timer);
    // Requests whose connection was closed still clean up.
    await Promise.all(this.#inFlight);
  }

  #begin(request: IncomingMessage, response: ServerResponse, expects: boolean): void {
    const serving = this.#serve(request, response, expects).finally(() => this.#inFlight.delete(serving));
    this.#inFlight.add(serving);
  }

  async #serve(request: IncomingMessage, response: ServerResponse, expects: boolean): Promise<void> {
    const requestId = this.#nextId();
    let waiting = expects;
    const proceed = () => {
      if (waiting) response.writeContinue();
      waiting = false;
    };
    let cors: Record<string, string> = corsHeaders(request, undefined);
    let answer: S3Response;
    try {
      const target = readTarget(request.url ?? '');
      const rules = request.headers.origin === undefined ? undefined : this.#findCorsRules(target);
      if (request.method === 'OPTIONS') answer = preflightResponse(request, rules);
      else {
        cors = corsHeaders(request, rules);
        answer = await this.#dispatch(request, target, requestId, proceed);
      }
    } catch (error) {
      answer = this.#toErrorResponse(error, request, requestId);
    }
    try {
      await respond(request, response, answer, { requestId, cors, waiting, closing: this.#closing });
    } catch {
      // The client closed the connection, or a content file cannot be read. The headers are sent, so only a reset can
      // report it.
      response.destroy();
    }
  }

  async #dispatch(
    request: IncomingMessage,
    target: RequestTarget,
    requestId: string,
    proceed: () => void,
  ): Promise<S3Response> {
    const { method = '' } = request;
    if (method === 'POST' && target.path === '/') return this.#sts(request, target, requestId, proceed);
    const authenticated = authenticate(request, target, this.#store);
    const exchange = new Exchange(request, target, authenticated, { store: this.#store, requestId, proceed });
    return findOperation(exchange)(exchange, this.#store);
  }

  async #sts(
    request: IncomingMessage,
    target: RequestTarget,
    requestId: string,
    proceed: () => void,
  ): Promise<S3Response> {
    precheckSts(request, target, this.#store);
    const length = Number(request.headers['content-length'] ?? Number.NaN);
    if (Number.isNaN(length)) throw new S3Error('MissingContentLength');
    if (length > MAX_FORM_BYTES) throw new S3Error('MaxMessageLengthExceeded');
    proceed();
    const { data } = await receiveInMemory(request, { length });
    const { signer } = authenticateSts(request, target, data, this.#store);
    const form = data.toString('utf8');
    if (form.split('&', MAX_FORM_FIELDS + 1).length > MAX_FORM_FIELDS) {
      throw new S3Error('InvalidParameterValue', `The form has more than ${MAX_FORM_FIELDS} fields.`);
    }
    return assumeRole(signer, new URLSearchParams(form), this.#store.identities, requestId);
  }

  #findCorsRules({ bucket }: RequestTarget): readonly CorsRule[] | undefined {
    const text = bucket === '' ? undefined : this.#store.buckets.find(bucket)?.cors;
    return text === undefined ? undefined : this.#cors.get(bucket, text);
  }

  #toErrorResponse(error: unknown, request: IncomingMessage, requestId: string): S3Response {
    const { method = '', url = '' } = request;
    const path = url.split('?')[0] ?? '';
    const refusal = error instanceof S3Error ? error : new S3Error('InternalError');
    // 501 means that the client asked for something unsupported: nothing failed here.
    if (refusal.status >= 500 && refusal.code !== 'NotImplemented')
      this.#store.report(error, { requestId, method, path });
    return method === 'POST' && path === '/' ? stsError(refusal, requestId) : errorResponse(refusal, path, requestId);
  }

  /** Sixteen hex digits, like MinIO's request ids. */
  #nextId(): string {
    const count = BigInt(this.#requests++ % 1_000_000);
    return (BigInt(Date.now()) * 1_000_000n + count).toString(16).toUpperCase().padStart(16, '0');
  }
}

function preflightResponse(request: IncomingMessage, rules: readonly CorsRule[] | undefined): S3Response {
  const headers = preflight(request, rules);
  if (headers) return { status: 204, headers };
  throw new S3Error('AccessDenied', 'CORSResponse: this CORS request is not allowed.');
}

/** A body up to this size is read and discarded, so that the connection can be reused. */
const DISCARD_BYTES = 64 * 1024;

/**
 * How much of a larger body is read, and for how long, so that the client reads the response before the connection
 * closes.
 */
const LINGER_BYTES = 16 * 1024 * 1024;
const LINGER_TIME = 2_000;

interface Context {
  readonly requestId: string;
  readonly cors: Readonly<Record<string, string>>;
  /** The client waits for `100 Continue`, which was not sent. */
  readonly waiting: boolean;
  readonly closing: boolean;
}

async function respond(
  request: IncomingMessage,
  response: ServerResponse,
  { status, headers = {}, body, stream }: S3Response,
  { requestId, cors, waiting, closing }: Context,
): Promise<void> {
  const all: Record<string, string | number> = { 'x-amz-request-id': requestId, server: 'OSCAR', ...cors };
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) all[name] = value;
  const bodiless = status === 204 || status === 304;
  if (!bodiless && all['content-length'] === undefined) all['content-length'] = bodyLength(body);
  const unread = unreadBytes(request);
  const close = waiting || unread > DISCARD_BYTES;
  if (close || closing) all['connection'] = 'close';
  response.writeHead(status, all);
  if (stream && request.method !== 'HEAD') return stream(response);
  const content = request.method === 'HEAD' || bodiless ? undefined : body;
  if (close && !waiting) return linger(request, response, content);
  response.end(content);
}

/** Seconds. Space appears only when a user or the operator deletes something, so retrying sooner does not help. */
const RETRY_WHEN_FULL = '30';

function errorResponse(error: S3Error, resource: string, requestId: string): S3Response {
  const fields = {
    Code: error.code,
    Message: error.message,
    Resource: resource,
    RequestId: requestId,
    HostId: 'oscar',
  };
  const inside = Object.entries(fields).map(([name, text]) => `<${name}>${escapeXml(text)}</${name}>`);
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<Error>${inside.join('')}</Error>`;
  const retry = error.code === 'XMinioStorageFull' && { 'retry-after': RETRY_WHEN_FULL };
  return { status: error.status, headers: { 'content-type': 'application/xml', ...retry }, body };
}

const bodyLength = (body: string | Uint8Array | undefined) =>
  typeof body === 'string' ? Buffer.byteLength(body) : (body?.length ?? 0);

/** How many bytes of the body may still arrive; infinite if the request does not declare its length. */
function unreadBytes(request: IncomingMessage): number {
  if (request.complete) return 0;
  if (request.headers['transfer-encoding'] !== undefined) return Number.POSITIVE_INFINITY;
  return Number(request.headers['content-length'] ?? 0);
}

/**
 * Responds to a request whose body is still arriving. Closing at once would reset the connection, and the client might
 * never read the response. So the body is read and discarded for a while first.
 */
async function linger(request: IncomingMessage, response: ServerResponse, content: string | Uint8Array | undefined) {
  if (content !== undefined) response.write(content);
  else response.flushHeaders();
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, LINGER_TIME);
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > LINGER_BYTES) resolve();
  });
  request
    .once('end', resolve)
    .once('error', () => resolve())
    .once('close', resolve);
  request.resume();
  await promise;
  clearTimeout(timer);
  response.end();
}
