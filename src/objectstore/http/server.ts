import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { S3Error } from '../errors.ts';
import { receiveInMemory } from '../payload/receive.ts';
import { readTarget, type Target } from '../signature/target.ts';
import type { Database } from '../store/database.ts';
import type { Answer } from './answer.ts';
import { assumeRole, stsError } from './assume-role.ts';
import { authenticate, authenticateSts } from './authenticate.ts';
import { corsHeaders, preflight, readCors } from './cors.ts';
import { Exchange, type Store } from './exchange.ts';
import { errorAnswer, respond } from './respond.ts';
import { routeOf } from './route.ts';

/** A connection on which nothing moves for so long is given up; an upload may take as long as it likes. */
const IDLE_TIMEOUT = 120_000;
const HEADERS_TIMEOUT = 30_000;
const KEEP_ALIVE = 65_000;

/** A session token and a signature in the query are below 4 KiB, metadata below 2 KiB. */
const HEADER_BYTES = 32 * 1024;

/** How long requests that were begun may take when the server stops. */
const STOP_TIME = 5_000;

/** A form for STS: a policy of a few thousand characters, encoded. */
const FORM_BYTES = 256 * 1024;

/** Failures that are not the client's. */
export type Report = (error: unknown, about: { requestId: string; method: string; path: string }) => void;

export interface Served extends Store {
  readonly database: Database;
  readonly report: Report;
}

/** The HTTP side of the store. */
export class S3Server {
  readonly #store: Served;
  readonly #server: Server;
  readonly #serving = new Set<Promise<void>>();
  #closing = false;
  #requests = 0;
  #endpoint = '';

  constructor(store: Served) {
    this.#store = store;
    this.#server = createServer({
      requestTimeout: 0,
      headersTimeout: HEADERS_TIMEOUT,
      keepAliveTimeout: KEEP_ALIVE,
      maxHeaderSize: HEADER_BYTES,
      noDelay: true,
    });
    this.#server.timeout = IDLE_TIMEOUT;
    this.#server.on('request', (request, response) => this.#begin(request, response, false));
    this.#server.on('checkContinue', (request, response) => this.#begin(request, response, true));
  }

  /** Where it listens, as a URL; empty before. */
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
    if (address === null || typeof address === 'string') throw new Error('a port was expected');
    const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    this.#endpoint = `http://${name}:${address.port}`;
    return address;
  }

  /** Requests that were begun are finished, if they can be in a few seconds. */
  async close(): Promise<void> {
    this.#closing = true;
    if (!this.#server.listening) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    this.#server.closeIdleConnections();
    const timer = setTimeout(() => this.#server.closeAllConnections(), STOP_TIME);
    await promise;
    clearTimeout(timer);
    // What was cut off still tidies up.
    await Promise.all(this.#serving);
  }

  #begin(request: IncomingMessage, response: ServerResponse, expects: boolean): void {
    const serving = this.#serve(request, response, expects).finally(() => this.#serving.delete(serving));
    this.#serving.add(serving);
  }

  async #serve(request: IncomingMessage, response: ServerResponse, expects: boolean): Promise<void> {
    const requestId = this.#nextId();
    let waiting = expects;
    const proceed = () => {
      if (waiting) response.writeContinue();
      waiting = false;
    };
    let cors: Record<string, string> = corsHeaders(request, undefined);
    let answer: Answer;
    try {
      const target = readTarget(request.url ?? '');
      const rules = this.#corsRulesOf(target);
      if (request.method === 'OPTIONS') answer = answerPreflight(request, rules);
      else {
        cors = corsHeaders(request, rules);
        answer = await this.#answer(request, target, requestId, proceed);
      }
    } catch (error) {
      answer = this.#refusal(error, request, requestId);
    }
    try {
      await respond(request, response, answer, { requestId, cors, waiting, closing: this.#closing });
    } catch {
      // The client has gone, or a content file cannot be read: there is no other way left to say so.
      response.destroy();
    }
  }

  async #answer(request: IncomingMessage, target: Target, requestId: string, proceed: () => void): Promise<Answer> {
    const { method = '' } = request;
    if (method === 'POST' && target.path === '/') return this.#sts(request, target, requestId, proceed);
    const authenticated = authenticate(request, target, this.#store);
    const exchange = new Exchange(request, target, authenticated, { store: this.#store, requestId, proceed });
    const isCopy = exchange.setting('x-amz-copy-source') !== undefined;
    return routeOf(method, target, isCopy)(exchange, this.#store);
  }

  async #sts(request: IncomingMessage, target: Target, requestId: string, proceed: () => void): Promise<Answer> {
    const length = Number(request.headers['content-length'] ?? Number.NaN);
    if (Number.isNaN(length)) throw new S3Error('MissingContentLength');
    if (length > FORM_BYTES) throw new S3Error('MaxMessageLengthExceeded');
    proceed();
    const { data } = await receiveInMemory(request, { length });
    const { signer } = authenticateSts(request, target, data, this.#store);
    return assumeRole(signer, new URLSearchParams(data.toString('utf8')), this.#store.identities, requestId);
  }

  #corsRulesOf({ bucket }: Target) {
    const text = bucket === '' ? undefined : this.#store.buckets.find(bucket)?.cors;
    return text === undefined ? undefined : readCors(text);
  }

  #refusal(error: unknown, request: IncomingMessage, requestId: string): Answer {
    const { method = '', url = '' } = request;
    const path = url.split('?')[0] ?? '';
    const refusal = error instanceof S3Error ? error : new S3Error('InternalError');
    if (refusal.status >= 500) this.#store.report(error, { requestId, method, path });
    return method === 'POST' && path === '/' ? stsError(refusal, requestId) : errorAnswer(refusal, path, requestId);
  }

  /** Sixteen hex digits, as MinIO has it. */
  #nextId(): string {
    const count = BigInt(this.#requests++ % 1_000_000);
    return (BigInt(Date.now()) * 1_000_000n + count).toString(16).toUpperCase().padStart(16, '0');
  }
}

function answerPreflight(request: IncomingMessage, rules: ReturnType<typeof readCors> | undefined): Answer {
  const headers = preflight(request, rules);
  if (headers) return { status: 204, headers };
  throw new S3Error('AccessDenied', 'CORSResponse: this CORS request is not allowed.');
}
