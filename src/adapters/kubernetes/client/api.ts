import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { Slots } from '../../../lib/concurrency.ts';
import { type HttpClient, HttpClientError, type HttpRequest, originalError } from '../../../lib/http/index.ts';
import { backoffDelay } from '../../../lib/retry.ts';
import { ApiError, ConnectionError, isTransient, type Status } from './api-error.ts';
import type { Endpoint } from './endpoint.ts';
import { type KubeKind, type KubeList, type KubeObject, type ObjectRef, objectPath, type Stored } from './kinds.ts';

interface ApiOptions {
  readonly rate: RateLimit;
  /** How long one request may take. */
  readonly requestMs: number;
  /** How long a read is retried, and the outcome of a write is inspected, before the store counts as unavailable. */
  readonly patienceMs: number;
  readonly random: () => number;
}

export interface ApiMetrics {
  readonly requests: number;
  /** Requests that failed; included in `requests`. */
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
  /** Bypasses the rate limit and the concurrency limit. */
  readonly urgent?: boolean | undefined;
}

/** Makes the server send metadata only, for lists of names. */
const METADATA_ONLY = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';

/** Concurrent requests, each on its own connection; watches are not counted. More of them would only queue in the server. */
const MAX_CONCURRENT = 32;

/** Objects in a page of a list. A larger page makes one answer larger; a smaller one costs more round trips. */
const PAGE = 500;

/**
 * Bytes of one answer. The largest answers are pages of objects, of which etcd holds at most 1.5 MB each; Node cannot make a
 * string of more.
 */
const MAX_ANSWER = 512 * 1024 ** 2;

/** Client of the Kubernetes API: rate limit, concurrency limit, and retries of reads. */
export class Api {
  readonly options: ApiOptions;
  readonly #endpoint: Endpoint;
  readonly #limiter: RateLimiter;
  readonly #slots = new Slots(MAX_CONCURRENT);
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

  async get<T extends KubeObject>(kind: KubeKind, place: ObjectRef): Promise<Stored<T> | undefined> {
    try {
      return await this.#read<Stored<T>>({ method: 'GET', path: objectPath(kind, place), urgent: kind.urgent });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  /** Version of the server: `v1.34.4`. */
  async version(): Promise<string> {
    const { gitVersion } = await this.#read<{ gitVersion: string }>({ method: 'GET', path: '/version' });
    return gitVersion;
  }

  /** One page of the objects of a kind, in one namespace or in all. */
  async page<T extends KubeObject>(
    kind: KubeKind,
    place: ObjectRef,
    { labelSelector, fieldSelector, from, limit = PAGE, metadataOnly = false }: ListOptions = {},
  ): Promise<KubeList<T>> {
    const query = { labelSelector, fieldSelector, limit, continue: from };
    const accept = metadataOnly ? { accept: METADATA_ONLY } : {};
    return this.#read<KubeList<T>>({ method: 'GET', path: objectPath(kind, place), query, ...accept });
  }

  /** All pages. Fails with 410 if the list expires in between. With `slim`, at most one page of full objects is in memory. */
  async list<T extends KubeObject>(
    kind: KubeKind,
    place: ObjectRef,
    {
      slim,
      ...options
    }: Omit<ListOptions, 'from'> & { readonly slim?: ((object: Stored<T>) => Stored<T>) | undefined } = {},
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

  /** Sends the request once. `writes.ts` handles a missing answer. */
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

  async put<T extends KubeObject>(kind: KubeKind, place: ObjectRef, object: T, query?: WriteQuery): Promise<Stored<T>> {
    const { apiVersion, kind: name } = kind;
    const body = { apiVersion, kind: name, ...object };
    const path = objectPath(kind, place);
    return this.#send({ method: 'PUT', path, urgent: kind.urgent, ...(query && { query: { ...query } }), body });
  }

  async delete(
    kind: KubeKind,
    place: ObjectRef,
    preconditions: { uid?: string; resourceVersion?: string },
  ): Promise<void> {
    const propagation = kind.cascade && { propagationPolicy: kind.cascade };
    const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions, ...propagation };
    await this.#send({ method: 'DELETE', path: objectPath(kind, place), body });
  }

  /** Opens a streamed response. It ends when the signal aborts, when the server ends it, or with an error. */
  async openStream(kind: KubeKind, place: ObjectRef, query: Query, signal: AbortSignal): Promise<Readable> {
    await this.#limiter.wait(signal);
    return this.#exchange({ method: 'GET', path: objectPath(kind, place), query }, async (client, request) => {
      const answer = await client.open({ ...request, signal });
      if (isSuccess(answer.status)) return answer.body;
      const chunks = await answer.body.toArray().catch(() => []);
      throw this.#rejection(answer.status, Buffer.concat(chunks));
    });
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
        const delay = Math.max(backoff(repetition, this.options.random, 1_000), retryAfterMs(error));
        if (performance.now() + delay > begin + this.options.patienceMs) throw error;
        await pause(delay);
      }
    }
  }

  async #send<T>(request: Request): Promise<T> {
    if (request.urgent) return this.#request(request);
    await this.#limiter.wait();
    return this.#slots.use(() => this.#request(request));
  }

  async #request<T>(request: Request): Promise<T> {
    // The deadline starts here: time spent waiting for the own limits does not count.
    const deadline = this.options.requestMs;
    return this.#exchange(request, async (client, prepared) => {
      const { status, body } = await client.send({ ...prepared, deadline, maxBytes: MAX_ANSWER });
      if (!isSuccess(status)) throw this.#rejection(status, body);
      try {
        return JSON.parse(body.toString()) as T;
      } catch (cause) {
        throw new ConnectionError(true, `the answer of the Kubernetes API is not JSON: ${errorMessage(cause)}`, {
          cause,
        });
      }
    });
  }

  async #exchange<T>(
    { method, path, query = {}, body, accept = 'application/json' }: Request,
    send: (client: HttpClient, request: HttpRequest) => Promise<T>,
  ): Promise<T> {
    this.#requests++;
    let sent = false;
    try {
      const { client, headers } = await this.#endpoint.connect();
      const { url: base } = this.#endpoint;
      const url = new URL(base.pathname.replace(/\/$/, '') + path, base);
      for (const [name, value] of Object.entries(query)) {
        if (value !== undefined) url.searchParams.set(name, String(value));
      }
      return await send(client, {
        method,
        url,
        headers: {
          ...headers,
          accept,
          'user-agent': 'oscar-manager',
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        repeatable: method === 'GET',
        onSent: () => (sent = true),
      });
    } catch (error) {
      this.#failures++;
      throw error instanceof HttpClientError
        ? new ConnectionError(sent, describeFailure(error), { cause: error })
        : error;
    }
  }

  #rejection(status: number, body: Buffer): ApiError {
    if (status === 401) this.#endpoint.forgetCredentials();
    return new ApiError(status, parseStatus(body.toString()));
  }
}

const isSuccess = (status: number) => status < 300;

/** `dryRun`: the server validates the write and does not execute it. */
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

function parseStatus(body: string): Status {
  try {
    return JSON.parse(body) as Status;
  } catch {
    return { message: body.slice(0, 200) };
  }
}

export function retryAfterMs(error: unknown): number {
  return error instanceof ApiError ? error.retryAfterMs : 0;
}

function describeFailure(error: HttpClientError): string {
  if (error.code === 'timed-out' || error.code === 'aborted') return 'the Kubernetes API did not answer in time';
  return `the Kubernetes API cannot be reached: ${errorMessage(originalError(error))}`;
}

const errorMessage = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** First back-off in ms. A shorter one loads a restarting server more; a longer one delays recovery. */
const FIRST_BACKOFF = 50;

/** Longest back-off in ms: each caller asks a server that is down for long twice a minute. */
const LONGEST_BACKOFF = 30_000;

/** The wait in ms before the n-th retry (from 0). It doubles each time, with jitter so that callers do not retry together. */
export function backoff(retry: number, random: () => number, longest = LONGEST_BACKOFF): number {
  return backoffDelay(retry + 1, { first: FIRST_BACKOFF, longest }, random());
}

export interface RateLimit {
  /** Sustained requests per second. */
  readonly perSecond: number;
  /** Requests that may be sent at once after an idle period. */
  readonly burst: number;
}

/**
 * Client-side token bucket that protects the API server. The limit is an explicit setting because nobody finds a hidden
 * default: the 5 requests per second of client-go limit the Go manager to 2.6 job starts per second.
 */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #now: () => number;
  /** When the bucket is full again. The number of tokens follows from it. */
  #fullAt = 0;
  #waited = 0;

  constructor(limit: RateLimit, now: () => number = () => performance.now()) {
    this.#limit = limit;
    this.#now = now;
  }

  /** Total milliseconds that requests have waited here. */
  get waitedMs(): number {
    return this.#waited;
  }

  async wait(signal?: AbortSignal): Promise<void> {
    const delay = this.reserve();
    if (delay <= 0) return;
    this.#waited += delay;
    await pause(delay, undefined, signal && { signal });
  }

  /** Takes a token and returns in how many milliseconds it may be used. */
  reserve(): number {
    const { perSecond, burst } = this.#limit;
    const interval = 1_000 / perSecond;
    const now = this.#now();
    this.#fullAt = Math.max(this.#fullAt, now) + interval;
    return Math.max(0, this.#fullAt - now - burst * interval);
  }
}
