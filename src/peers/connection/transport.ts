import type { Readable } from 'node:stream';
import type { Field } from '../../lib/fields.ts';
import {
  allowedAddresses,
  HttpClient,
  type HttpHead,
  type Network,
  type Resolver,
  toHttpClientError,
  type WholeAnswer,
} from '../../lib/http/index.ts';
import { parseJson } from '../../lib/json.ts';
import { isSlash, trimEnd } from '../../lib/trim.ts';
import { WORKER_HEADER } from '../messages/federation.ts';
import { type PeerAddress, PeerError } from '../peer.ts';
import { noManager } from './problems.ts';

type Headers = Readonly<Record<string, string>>;

/** One request to a manager. A function as `headers` is called each time that the request is sent. */
export interface PeerRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Appended to the endpoint: `/system/…`. */
  readonly path: string;
  /** Without the question mark. */
  readonly query?: string;
  readonly headers: Headers | (() => Headers);
  readonly body?: string;
  /** Milliseconds until the whole answer was read. */
  readonly deadline: number;
  /** May the other manager receive it twice? */
  readonly repeatable: boolean;
}

/** A request whose answer is read as it arrives, with no limit to its length. */
export interface StreamRequest extends Omit<PeerRequest, 'method' | 'headers' | 'body' | 'repeatable'> {
  readonly headers: Headers;
  /** Milliseconds until the head of the answer was read. */
  readonly deadline: number;
  /** Milliseconds that may pass without a byte while the caller reads. */
  readonly idle: number;
  /** Ends the stream without an error, when the reader is gone. */
  readonly signal?: AbortSignal | undefined;
}

export interface PeerStream extends Pick<PeerAnswer, 'status' | 'date'> {
  /** Empty for any status but 200. Ends early, without an error, only because of the signal. */
  readonly chunks: AsyncIterable<Uint8Array>;
}

export interface PeerAnswer {
  readonly status: number;
  /** Undefined if the body is not JSON. */
  readonly json: unknown;
  readonly isEmpty: boolean;
  /** The beginning of the body of an error, unchanged: it may repeat what was sent. */
  readonly text?: string;
  /** The clock of the other manager, with a precision of one second. */
  readonly date: number | undefined;
  /** The header that describes a worker. */
  readonly worker: string | undefined;
}

export interface TransportOptions {
  /** The operator's own networks that users may name. */
  readonly networks: readonly Network[];
  readonly resolve?: Resolver;
}

/**
 * Requests to one manager at a time. An offer of a job takes up to three round trips, because the other side asks back before
 * it answers: at 50 ms each, these are some 200 offers a second. More: a slow manager holds more of our memory. Fewer: a
 * burst of jobs waits for connections while the members have room.
 */
const MAX_CONNECTIONS = 32;

/** Logs are read for hours: they have connections of their own, so that no other request waits for them. */
const MAX_STREAMS = 64;

/**
 * Milliseconds that an idle connection is kept. Shorter: after a pause between two bursts of jobs new connections are made, and
 * making one costs as much as a request. Longer: managers that are rarely used hold file descriptors.
 */
const KEEP_ALIVE = 300_000;

/** Definitions are the longest messages between managers, and they are far shorter. */
const LONGEST_ANSWER = 256 * 1024;

/** Characters of an error that are kept: more than is ever shown, so that a secret in it is masked as a whole. */
const LONGEST_TEXT = 4096;

/** The HTTP connection to one manager: pooled connections, a deadline, a limit on the length of answers, no redirects. */
export class Transport {
  readonly #address: PeerAddress;
  readonly #base: URL;
  readonly #requests: HttpClient;
  readonly #streams: HttpClient;
  #pending = 0;

  constructor(address: PeerAddress, { networks, resolve }: TransportOptions) {
    this.#address = address;
    this.#base = new URL(address.endpoint);
    const options = {
      verify: address.verify,
      ...(address.ca !== undefined && { ca: address.ca }),
      ...(address.guarded && { allowed: allowedAddresses(networks) }),
      ...(resolve && { resolve }),
      keepAlive: KEEP_ALIVE,
    };
    this.#requests = new HttpClient({ ...options, maxConnections: MAX_CONNECTIONS });
    this.#streams = new HttpClient({ ...options, maxConnections: MAX_STREAMS });
  }

  get isBusy(): boolean {
    return this.#pending > 0;
  }

  /** Resolves to the answer, of any status. Without an answer it rejects with a {@link PeerError}. */
  async send({ method, headers, body, deadline, repeatable, ...target }: PeerRequest): Promise<PeerAnswer> {
    const framing = body === undefined ? {} : { 'content-type': 'application/json' };
    const made = () => ({
      accept: 'application/json',
      ...(typeof headers === 'function' ? headers() : headers),
      ...framing,
    });
    this.#pending++;
    try {
      const place = this.#place(target);
      const request = { method, ...place, headers: made, body, deadline, repeatable, maxBytes: LONGEST_ANSWER };
      return toPeerAnswer(await this.#requests.send(request));
    } catch (error) {
      throw this.#failure(error);
    } finally {
      this.#pending--;
    }
  }

  /** Resolves when the head of the answer was read. No answer, or one that breaks off, is a {@link PeerError}. */
  async stream({ deadline, idle, signal, ...target }: StreamRequest): Promise<PeerStream> {
    const headers = { accept: 'application/json', ...target.headers };
    this.#pending++;
    try {
      const answer = await this.#streams.open({ method: 'GET', ...this.#place(target), headers, deadline });
      const { status, body } = answer;
      body.once('close', () => this.#pending--).on('error', () => undefined);
      if (status !== 200) body.destroy();
      return { status, date: readDate(answer), chunks: status === 200 ? this.#chunks(body, idle, signal) : nothing() };
    } catch (error) {
      this.#pending--;
      throw this.#failure(error);
    }
  }

  close(): void {
    this.#requests.close();
    this.#streams.close();
  }

  #place({ path, query }: Pick<PeerRequest, 'path' | 'query'>) {
    const { origin, pathname } = this.#base;
    return { url: origin, path: `${trimEnd(pathname, isSlash)}${path}${query ? `?${query}` : ''}` };
  }

  async *#chunks(body: Readable, idle: number, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
    // Only while we wait for more: a slow reader is not a silent manager.
    const startTimer = () =>
      setTimeout(() => body.destroy(new DOMException('no answer in time', 'TimeoutError')), idle);
    const stop = () => body.destroy();
    let timer = startTimer();
    if (signal?.aborted) stop();
    signal?.addEventListener('abort', stop, { once: true });
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        clearTimeout(timer);
        yield chunk;
        timer = startTimer();
      }
    } catch (error) {
      if (!signal?.aborted) throw this.#failure(error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', stop);
      body.destroy();
    }
  }

  #failure(error: unknown): PeerError {
    const { clusterId, endpoint } = this.#address;
    const failure = toHttpClientError(error, this.#base.hostname);
    if (failure?.code === 'untrusted') {
      // The text of a certificate is written by the other side: it is not shown.
      const why =
        'its certificate is not valid: set its CA certificate as `ca` of the cluster, or correct the certificate';
      return new PeerError('unreachable', `cluster "${clusterId}" at ${endpoint}: ${why}`, { cause: failure });
    }
    if (!failure || failure.code === 'not-http' || failure.code === 'too-large') return noManager(this.#address);
    return new PeerError('unreachable', `cluster "${clusterId}": ${failure.message}`, { cause: failure });
  }
}

function toPeerAnswer({ status, headers, body }: WholeAnswer): PeerAnswer {
  return {
    status,
    json: /^application\/json\b/i.test(headers['content-type'] ?? '') ? readJson(body) : undefined,
    isEmpty: body.length === 0,
    ...(status >= 400 && { text: body.toString().slice(0, LONGEST_TEXT) }),
    date: readDate({ status, headers }),
    worker: headers[WORKER_HEADER],
  };
}

function readDate({ headers }: HttpHead): number | undefined {
  const date = Date.parse(headers['date'] ?? '');
  return Number.isNaN(date) ? undefined : date;
}

async function* nothing(): AsyncGenerator<never, undefined> {}

function readJson(body: Buffer): unknown {
  try {
    return parseJson(body);
  } catch {
    return undefined;
  }
}

/** Validates a value before it is written into a path or a header. */
export function validField(field: Field<string>, value: string, { clusterId }: PeerAddress): string {
  const read = field.read(value);
  if (read !== undefined) return read;
  throw new PeerError('failed', `cluster "${clusterId}" was not asked: "${value}" is not ${field.is}`);
}
