import http from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { Slots } from '../../../lib/concurrency.ts';
import { ApiError, ConnectionError, isTransient, type Status } from './api-error.ts';
import type { Endpoint } from './endpoint.ts';
import { type KubeKind, type KubeList, type KubeObject, type ObjectPlace, objectPath, type Stored } from './kinds.ts';

interface ApiOptions {
  readonly rate: RateLimit;
  /** How long one request may take. */
  readonly requestMs: number;
  /** How long a read is tried again, and a write asked about, before the store counts as unavailable. */
  readonly patienceMs: number;
  readonly random: () => number;
}

export interface ApiMetrics {
  readonly requests: number;
  /** Of them, those without the answer that was asked for. */
  readonly failures: number;
  /** Milliseconds that requests have waited for the client's own rate limit. */
  readonly waitedMs: number;
}

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';
type Query = Readonly<Record<string, string | number | boolean | undefined>>;

interface Request {
  readonly method: Method;
  readonly path: string;
  readonly query?: Query;
  readonly body?: unknown;
  readonly accept?: string;
  /** It does not wait for its turn. */
  readonly urgent?: boolean | undefined;
}

/** Values do not travel when only names are asked for. */
const METADATA_ONLY = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';

/** Requests on their way at once, each on a connection; watches have their own. More only wait in the server instead. */
const AT_ONCE = 32;

/** Objects in a page of a list. More: one answer is larger than it need be. Fewer: more round trips. */
const PAGE = 500;

/** The Kubernetes API, as far as the manager needs it. */
export class Api {
  readonly options: ApiOptions;
  readonly #endpoint: Endpoint;
  readonly #limiter: RateLimiter;
  readonly #slots = new Slots(AT_ONCE);
  #requests = 0;
  #failures = 0;

  constructor(endpoint: Endpoint, options: ApiOptions) {
    this.#endpoint = endpoint;
    this.options = options;
    this.#limiter = new RateLimiter(options.rate);
  }

  get metrics(): ApiMetrics {
    return { requests: this.#requests, failures: this.#failures, waitedMs: Math.round(this.#limiter.waitedMs) };
  }

  async get<T extends KubeObject>(kind: KubeKind, place: ObjectPlace): Promise<Stored<T> | undefined> {
    try {
      return await this.#read<Stored<T>>({ method: 'GET', path: objectPath(kind, place), urgent: kind.urgent });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** Of the server: `v1.34.4`. */
  async version(): Promise<string> {
    const { gitVersion } = await this.#read<{ gitVersion: string }>({ method: 'GET', path: '/version' });
    return gitVersion;
  }

  /** One page. Of the whole kind, or of a namespace. */
  async page<T extends KubeObject>(
    kind: KubeKind,
    place: ObjectPlace,
    { labelSelector, fieldSelector, from, limit = PAGE, metadataOnly = false }: ListOptions = {},
  ): Promise<KubeList<T>> {
    const query = { labelSelector, fieldSelector, limit, continue: from };
    const accept = metadataOnly ? { accept: METADATA_ONLY } : {};
    return this.#read<KubeList<T>>({ method: 'GET', path: objectPath(kind, place), query, ...accept });
  }

  /** All pages. One that has expired in between fails with 410. With `slim`, no more than one page is ever held whole. */
  async list<T extends KubeObject>(
    kind: KubeKind,
    place: ObjectPlace,
    { slim, ...options }: Omit<ListOptions, 'from'> & Slimming<T> = {},
  ): Promise<{ items: Stored<T>[]; resourceVersion: string }> {
    const items: Stored<T>[] = [];
    let from: string | undefined;
    for (;;) {
      const page: KubeList<T> = await this.page(kind, place, { ...options, ...(from !== undefined && { from }) });
      for (const item of page.items ?? []) items.push(slim ? slim(item) : item);
      from = page.metadata.continue;
      if (!from) return { items, resourceVersion: page.metadata.resourceVersion };
    }
  }

  /** Sent once: whoever sends it knows what to do when there is no answer (`writes.ts`). */
  async post<T extends KubeObject>(
    kind: KubeKind,
    namespace: string | undefined,
    object: T,
    query?: WriteQuery,
  ): Promise<Stored<T>> {
    const { apiVersion, kind: name } = kind;
    return this.#send({
      method: 'POST',
      path: objectPath(kind, { namespace }),
      urgent: kind.urgent,
      ...(query && { query: { ...query } }),
      body: { apiVersion, kind: name, ...object },
    });
  }

  async put<T extends KubeObject>(
    kind: KubeKind,
    place: ObjectPlace,
    object: T,
    query?: WriteQuery,
  ): Promise<Stored<T>> {
    const { apiVersion, kind: name } = kind;
    const body = { apiVersion, kind: name, ...object };
    const path = objectPath(kind, place);
    return this.#send({ method: 'PUT', path, urgent: kind.urgent, ...(query && { query: { ...query } }), body });
  }

  async delete(
    kind: KubeKind,
    place: ObjectPlace,
    preconditions: { uid?: string; resourceVersion?: string },
  ): Promise<void> {
    const propagation = kind.cascade && { propagationPolicy: kind.cascade };
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions, ...propagation };
    await this.#send({ method: 'DELETE', path: objectPath(kind, place), body });
  }

  /** An answer that goes on; it ends when the signal aborts, when the server ends it, or with an error. */
  async stream(kind: KubeKind, place: ObjectPlace, query: Query, signal: AbortSignal): Promise<http.IncomingMessage> {
    await this.#limiter.wait(signal);
    const options = await this.#endpoint.streamOptions();
    return this.#exchange({ method: 'GET', path: objectPath(kind, place), query }, { ...options, signal });
  }

  close(): void {
    this.#endpoint.close();
  }

  async #read<T>(request: Request): Promise<T> {
    let begin: number | undefined;
    for (let repetition = 0; ; repetition++) {
      try {
        return await this.#send<T>(request);
      } catch (error) {
        begin ??= performance.now();
        if (!isTransient(error, performance.now() - begin)) throw error;
        const delay = Math.max(backoff(repetition, this.options.random, 1_000), retryAfter(error));
        if (performance.now() + delay > begin + this.options.patienceMs) throw error;
        await pause(delay);
      }
    }
  }

  async #send<T>(request: Request): Promise<T> {
    if (request.urgent) return this.#ask(request);
    await this.#limiter.wait();
    return this.#slots.use(() => this.#ask(request));
  }

  async #ask<T>(request: Request): Promise<T> {
    const options = await this.#endpoint.options();
    // From here on: who waited for others is not late.
    const signal = AbortSignal.timeout(this.options.requestMs);
    const response = await this.#exchange(request, { ...options, signal });
    try {
      return JSON.parse(await text(response)) as T;
    } catch (cause) {
      this.#failures++;
      throw new ConnectionError(true, `the answer of the Kubernetes API was cut: ${messageOf(cause)}`, { cause });
    }
  }

  async #exchange(
    { method, path, query = {}, body, accept = 'application/json' }: Request,
    options: http.RequestOptions,
  ): Promise<http.IncomingMessage> {
    this.#requests++;
    const { url } = this.#endpoint;
    const target = new URL(url.pathname.replace(/\/$/, '') + path, url);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) target.searchParams.set(name, String(value));
    }
    const packed = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const headers: http.OutgoingHttpHeaders = {
      ...(options.headers as http.OutgoingHttpHeaders | undefined),
      accept,
      'user-agent': 'oscar-manager',
      ...(packed && { 'content-type': 'application/json', 'content-length': packed.length }),
    };
    const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
    const module = target.protocol === 'http:' ? http : https;
    const request = module.request(target, { ...options, method, headers });
    let sent = false;
    const connected = module === https ? 'secureConnect' : 'connect';
    request.on('socket', (socket) => {
      if (!socket.connecting) sent = true;
      else socket.once(connected, () => (sent = true));
    });
    request.on('response', resolve);
    request.on('error', (cause) => {
      const message = options.signal?.aborted ? 'the Kubernetes API did not answer in time' : unreachable(cause);
      reject(new ConnectionError(sent, message, { cause }));
    });
    request.end(packed);
    try {
      const response = await promise;
      const { statusCode = 0 } = response;
      if (statusCode < 300) return response;
      if (statusCode === 401) this.#endpoint.forgetCredentials();
      throw new ApiError(statusCode, await statusOf(response));
    } catch (error) {
      this.#failures++;
      throw error;
    }
  }
}

/** `dryRun`: the server says whether it would do it, and does nothing. */
interface WriteQuery {
  readonly dryRun: 'All';
}

interface ListOptions {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** The `continue` of the page before. */
  readonly from?: string;
  readonly limit?: number;
  readonly metadataOnly?: boolean;
}

interface Slimming<T extends KubeObject> {
  readonly slim?: ((object: Stored<T>) => Stored<T>) | undefined;
}

async function statusOf(response: http.IncomingMessage): Promise<Status> {
  const said = await text(response).catch(() => '');
  try {
    return JSON.parse(said) as Status;
  } catch {
    return { message: said.slice(0, 200) };
  }
}

export function retryAfter(error: unknown): number {
  return error instanceof ApiError ? error.retryAfterMs : 0;
}

const unreachable = (cause: Error) => `the Kubernetes API cannot be reached: ${messageOf(cause)}`;

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** The first wait after a failure. Shorter: a server that restarts is asked more often. Longer: recovery is later. */
const FIRST = 50;

/** Longest wait. A server that is away for long is asked twice a minute by each who waits. */
const LONGEST = 30_000;

/** How long to wait before the n-th repetition (from 0): doubling, with jitter so that many do not come back at once. */
export function backoff(repetition: number, random: () => number, longest = LONGEST): number {
  const most = Math.min(longest, FIRST * 2 ** Math.min(repetition, 20));
  return most / 2 + (most / 2) * random();
}

export interface RateLimit {
  /** Requests per second in the long run. */
  readonly perSecond: number;
  /** Requests that may be sent at once after a silence. */
  readonly burst: number;
}

/**
 * Spares the API server. It is an explicit setting, since a default that nobody sees is a limit that nobody finds: the
 * 5 per second of the Go client are why the Go manager starts 2.6 jobs in a second.
 */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #now: () => number;
  /** When the bucket would have been full. Only this is kept: the rest follows from it. */
  #fullAt = 0;
  #waited = 0;

  constructor(limit: RateLimit, now: () => number = () => performance.now()) {
    this.#limit = limit;
    this.#now = now;
  }

  /** Milliseconds that requests have waited here altogether. */
  get waitedMs(): number {
    return this.#waited;
  }

  async wait(signal?: AbortSignal): Promise<void> {
    const delay = this.reserve();
    if (delay <= 0) return;
    this.#waited += delay;
    await pause(delay, undefined, signal && { signal });
  }

  /** Takes a turn, and says in how many milliseconds it is. */
  reserve(): number {
    const { perSecond, burst } = this.#limit;
    const interval = 1_000 / perSecond;
    const now = this.#now();
    this.#fullAt = Math.max(this.#fullAt, now) + interval;
    return Math.max(0, this.#fullAt - now - burst * interval);
  }
}
