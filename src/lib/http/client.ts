import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import sendRequest from 'undici/lib/api/api-request.js';
import Agent from 'undici/lib/dispatcher/agent.js';
import { type ConnectorOptions, guardedConnector } from './address-guard.ts';
import { HttpClientError, toHttpClientError } from './errors.ts';

export interface HttpClientOptions extends ConnectorOptions {
  /** Connections to one origin at a time, beyond which requests wait; unlimited if absent. */
  readonly maxConnections?: number;
  /**
   * Milliseconds after which an idle connection is closed, unless the server announces another time. With 0 each request has a
   * connection of its own, which is closed after the answer.
   */
  readonly keepAlive?: number;
}

type HeaderValues = Readonly<Record<string, string>>;

export interface HttpRequest {
  readonly method: string;
  readonly url: URL | string;
  /** Path and query to send as they are; those of the URL, which has no `..`, if absent. */
  readonly path?: string;
  /** Names in lower case. A function is called each time that the request is sent. */
  readonly headers?: HeaderValues | (() => HeaderValues);
  readonly body?: string | Uint8Array | Readable | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds: for `send`, until the whole answer was read; for `open`, until its head was. */
  readonly deadline?: number | undefined;
  /**
   * Milliseconds in which nothing is sent or received while both sides could. Time in which the caller does not read the body does
   * not count.
   */
  readonly idle?: number | undefined;
  /**
   * May the server receive it twice? Then it is sent again if the server closed the pooled connection at the moment of sending.
   * Not for a body that is a stream.
   */
  readonly repeatable?: boolean;
  /** Called when the request has a connection. Until then the server cannot have received it. */
  readonly onSent?: () => void;
}

export interface HttpHead {
  readonly status: number;
  /** Names in lower case; values of repeated headers are joined with a comma. */
  readonly headers: Readonly<Record<string, string | undefined>>;
}

export interface HttpAnswer extends HttpHead {
  /** Must be read or destroyed. Its errors are those of the connection: {@link toHttpClientError} classifies them. */
  readonly body: Readable;
}

export interface WholeAnswer extends HttpHead {
  readonly body: Buffer;
}

/**
 * Default of `keepAlive`. Shorter: more connections are made. Longer: more file descriptors are held by connections that may not be
 * used again.
 */
const KEEP_ALIVE = 60_000;

/** The system probes a silent connection after this many milliseconds, and so notices a host that disappeared. */
const PROBE_AFTER = 30_000;

/** How often a repeatable request is sent again. Each time the pool had a connection that the server was just closing. */
const MAX_RESENDS = 3;

/**
 * The HTTP client of the manager: pooled connections through the address guard, deadlines, size limits, no redirects, no proxies of
 * the environment. Every failure is an {@link HttpClientError}.
 */
export class HttpClient {
  readonly #createAgent: () => Agent;
  #agent: Agent;
  /** Requests without an answer, and answers whose body is not yet read. */
  #unfinished = 0;
  /** Connections on which nothing was sent yet. */
  readonly #unused = new Set<Socket>();

  constructor({ maxConnections, keepAlive = KEEP_ALIVE, ...options }: HttpClientOptions) {
    const connect = guardedConnector(options, (socket) => this.#watch(socket));
    // undici has no keep-alive with `pipelining: 0`.
    const pooling = keepAlive === 0 ? { pipelining: 0 } : { keepAliveTimeout: keepAlive };
    this.#createAgent = () => new Agent({ connect, ...pooling, connections: maxConnections ?? null });
    this.#agent = this.#createAgent();
  }

  /** Sends a request and reads the whole answer, of any status. Fails with `too-large` if the body has more than `maxBytes`. */
  async send(request: HttpRequest & { readonly maxBytes: number }): Promise<WholeAnswer> {
    const { deadline, signal, maxBytes } = request;
    const late = deadline === undefined ? undefined : AbortSignal.timeout(deadline);
    const end = anySignal(signal, late);
    try {
      const { status, headers, body } = await this.#open(request, end);
      const whole = await readAll(body, maxBytes, hostOf(request));
      // undici puts the connection back into the pool one turn later. Without this, the caller's next request makes a second one.
      await new Promise(setImmediate);
      return { status, headers, body: whole };
    } catch (error) {
      throw failureOf(error, request, late);
    }
  }

  /** Sends a request and resolves once the head of the answer, of any status, was read. */
  async open(request: HttpRequest): Promise<HttpAnswer> {
    const { deadline, signal } = request;
    const late = deadline === undefined ? undefined : new AbortController();
    const timer = late && setTimeout(() => late.abort(new DOMException('no answer in time', 'TimeoutError')), deadline);
    try {
      return await this.#open(request, anySignal(signal, late?.signal));
    } catch (error) {
      throw failureOf(error, request, late?.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Closes all connections: requests that are not finished fail, later ones make new connections. */
  close(): void {
    void this.#agent.destroy();
    this.#agent = this.#createAgent();
  }

  async #open(request: HttpRequest, signal: AbortSignal | undefined): Promise<HttpAnswer> {
    this.#unfinished++;
    try {
      const answer = await this.#sendUntilFresh(request, signal);
      answer.body.once('close', () => this.#finish());
      return answer;
    } catch (error) {
      this.#finish();
      throw error;
    }
  }

  async #sendUntilFresh(request: HttpRequest, signal: AbortSignal | undefined): Promise<HttpAnswer> {
    for (let resends = 0; ; resends++) {
      try {
        return await abortable(this.#start(request, signal), signal);
      } catch (error) {
        if (!request.repeatable || resends === MAX_RESENDS || !wasClosedWhenReused(error)) throw error;
      }
    }
  }

  async #start(request: HttpRequest, signal: AbortSignal | undefined): Promise<HttpAnswer> {
    const { method, headers = {}, body, idle = 0, onSent } = request;
    const url = new URL(request.url);
    const {
      statusCode,
      headers: received,
      body: content,
    } = await sendRequest.call(onSent ? notifySent(this.#agent, onSent) : this.#agent, {
      origin: url.origin,
      path: request.path ?? url.pathname + url.search,
      method,
      headers: { ...basicAuthorization(url), ...(typeof headers === 'function' ? headers() : headers) },
      body: body ?? null,
      signal: signal ?? null,
      headersTimeout: idle,
      bodyTimeout: idle,
      // Otherwise undici closes the connection after a HEAD, and after a GET or DELETE with a body.
      reset: false,
    });
    // undici's own setEncoding decodes each chunk alone, which corrupts characters whose bytes arrive in two chunks.
    content.setEncoding = (encoding) => {
      Readable.prototype.setEncoding.call(content, encoding);
      return content;
    };
    return { status: statusCode, headers: joinValues(received), body: content };
  }

  #watch(socket: Socket): void {
    socket.setKeepAlive(true, PROBE_AFTER);
    socket.on('error', (error) => {
      if (socket.bytesRead > 0) closedWhenReused.add(error);
    });
    this.#unused.add(socket);
    socket.once('close', () => this.#unused.delete(socket));
    setImmediate(() => this.#sortUnused());
  }

  #finish(): void {
    this.#unfinished--;
    if (this.#unfinished === 0 && this.#unused.size > 0) setImmediate(() => this.#sortUnused());
  }

  /** A request may be aborted before its connection is made. undici would keep that connection as idle; we close it (F11). */
  #sortUnused(): void {
    for (const socket of this.#unused) {
      if (socket.bytesWritten > 0) this.#unused.delete(socket);
      else if (this.#unfinished === 0) socket.destroy();
    }
  }
}

function notifySent(agent: Agent, onSent: () => void): Dispatcher {
  return agent.compose((dispatch) => (options, handler) => {
    const start = handler.onRequestStart?.bind(handler);
    // undici calls it when it begins to write the request.
    handler.onRequestStart = (...given) => {
      onSent();
      start?.(...given);
    };
    return dispatch(options, handler);
  });
}

/** undici notices an abort only when the request has a connection; the caller must not wait for that. */
function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise<T>((resolve, reject) => {
    const abort = () => reject(signal.reason as Error);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    void work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

function anySignal(...signals: readonly (AbortSignal | undefined)[]): AbortSignal | undefined {
  const [first, ...more] = signals.filter((each) => each !== undefined);
  return first && more.length > 0 ? AbortSignal.any([first, ...more]) : first;
}

async function readAll(body: Readable, maxBytes: number, host: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Leaving the loop closes the connection.
    if (bytes > maxBytes)
      throw new HttpClientError('too-large', `the answer of "${host}" is longer than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}

function failureOf(error: unknown, request: HttpRequest, late: AbortSignal | undefined): HttpClientError {
  const host = hostOf(request);
  if (request.signal?.aborted)
    return new HttpClientError('aborted', `the request to "${host}" was aborted`, { cause: error });
  const known = toHttpClientError(late?.aborted ? late.reason : error, host);
  return known ?? new HttpClientError('not-http', `"${host}" does not answer with HTTP`, { cause: error });
}

const hostOf = ({ url }: HttpRequest) => new URL(url).hostname;

/** As browsers and node:http do with `http://user:password@host`. */
function basicAuthorization({ username, password }: URL): HeaderValues {
  if (username === '' && password === '') return {};
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
}

function joinValues(headers: Dispatcher.ResponseData['headers']): HttpHead['headers'] {
  const entries = Object.entries(headers).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.join(', ') : value,
  ]);
  return Object.fromEntries(entries) as HttpHead['headers'];
}

/** Errors of connections that had carried an answer before. */
const closedWhenReused = new WeakSet<Error>();

const RESETS: ReadonlySet<unknown> = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

/** The server closed a pooled connection while the request was sent: it has not read the request. */
function wasClosedWhenReused(error: unknown): boolean {
  return error instanceof Error && closedWhenReused.has(error) && 'code' in error && RESETS.has(error.code);
}
