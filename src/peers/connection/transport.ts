import http from 'node:http';
import https from 'node:https';
import {
  type Agents,
  allowedAddresses,
  createAgents,
  type Network,
  type Resolver,
  toHttpClientError,
} from '../../lib/http/index.ts';
import { parseJson } from '../../lib/json.ts';
import { isSlash, trimEnd } from '../../lib/trim.ts';
import { WORKER_HEADER } from '../messages/federation.ts';
import { type PeerAddress, PeerError } from '../peer.ts';
import { noManager } from './problems.ts';

type Headers = Readonly<Record<string, string>>;

/** One request to a manager. Headers may be made anew each time that it is sent. */
export interface PeerRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** From the endpoint on: `/system/…`. */
  readonly path: string;
  /** Without the question mark. */
  readonly query?: string;
  readonly headers: Headers | (() => Headers);
  readonly body?: string;
  /** Milliseconds until all of the answer is here. */
  readonly deadline: number;
  /** Does it do no harm when it arrives twice? */
  readonly repeatable: boolean;
}

/** A request whose answer is read as it comes, however long it gets. */
export interface StreamRequest extends Omit<PeerRequest, 'method' | 'headers' | 'body' | 'repeatable'> {
  readonly headers: Headers;
  /** Milliseconds until the head of the answer is here. */
  readonly deadline: number;
  /** Milliseconds that may pass without a byte of it while somebody reads. There is no limit to the whole. */
  readonly idle: number;
  /** Whoever reads has gone. */
  readonly signal?: AbortSignal | undefined;
}

export interface PeerStream extends Pick<PeerAnswer, 'status' | 'date'> {
  /** Of any other status than 200 nothing is read. Ends early, without an error, for the signal alone. */
  readonly chunks: AsyncIterable<Uint8Array>;
}

export interface PeerAnswer {
  readonly status: number;
  /** Undefined when the body is none that we read. */
  readonly json: unknown;
  readonly isEmpty: boolean;
  /** The beginning of the body of an error, as it came: it may hold what was sent. */
  readonly text?: string;
  /** The clock over there, to the second. */
  readonly date: number | undefined;
  /** What is said of a worker beside the body. */
  readonly worker: string | undefined;
}

export interface TransportOptions {
  /** What of the operator's own networks users may name. */
  readonly networks: readonly Network[];
  readonly resolve?: Resolver;
}

/**
 * Requests at one manager at a time. An offer of a job takes up to three round trips, since the other side asks back before
 * it answers: at 50 ms each, these are some 200 offers a second. More: a slow manager holds more of our memory. Fewer: a
 * burst of jobs waits for connections while the members have room.
 */
const MOST_AT_ONCE = 32;

/** Logs are read for hours: they have connections of their own, so that nothing else waits for them. */
const MOST_STREAMS = 64;

/** A host that went away without a word is noticed by the system, which asks it after this many milliseconds of silence. */
const KEEP_ALIVE = 30_000;

/** Definitions are the longest that managers show each other, and those are far below. */
const LONGEST_ANSWER = 256 * 1024;

/** Characters of an error that are kept. More than anybody is shown, so that what is masked in it is masked as a whole. */
const LONGEST_TEXT = 4096;

/** The way to one manager: pooled connections, a deadline, a limit on what is read, and nobody is followed elsewhere. */
export class Transport {
  readonly #address: PeerAddress;
  readonly #base: URL;
  readonly #agents: Agents;
  readonly #streams: Agents;
  #underWay = 0;

  constructor(address: PeerAddress, { networks, resolve }: TransportOptions) {
    this.#address = address;
    this.#base = new URL(address.endpoint);
    const options = {
      verify: address.verify,
      ...(address.ca !== undefined && { ca: address.ca }),
      ...(address.guarded && { allowed: allowedAddresses(networks) }),
      ...(resolve && { resolve }),
    };
    this.#agents = createAgents({ ...options, mostConnections: MOST_AT_ONCE });
    this.#streams = createAgents({ ...options, mostConnections: MOST_STREAMS });
    // Between two bursts they would be closed, and dialling again costs as much as asking.
    this.#agents.http.maxFreeSockets = MOST_AT_ONCE;
    this.#agents.https.maxFreeSockets = MOST_AT_ONCE;
  }

  get isBusy(): boolean {
    return this.#underWay > 0;
  }

  /** The answer, whatever it says. No answer is a {@link PeerError}. */
  async send(request: PeerRequest): Promise<PeerAnswer> {
    const deadline = AbortSignal.timeout(request.deadline);
    this.#underWay++;
    try {
      return await this.#send(request, deadline);
    } catch (error) {
      throw this.#failure(deadline.aborted ? deadline.reason : error);
    } finally {
      this.#underWay--;
    }
  }

  /** The answer as it comes, whatever it says. No answer is a {@link PeerError}, and so is one that breaks off. */
  async stream(request: StreamRequest): Promise<PeerStream> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(silence()), request.deadline);
    this.#underWay++;
    try {
      const asked = { ...request, method: 'GET' as const };
      const response = await this.#start(asked, late.signal, this.#streams).response;
      response.once('close', () => this.#underWay--);
      response.socket.setKeepAlive(true, KEEP_ALIVE);
      const { statusCode: status = 0 } = response;
      if (status !== 200) response.destroy();
      return { status, date: dateOf(response), chunks: status === 200 ? this.#chunks(response, request) : nothing() };
    } catch (error) {
      this.#underWay--;
      throw this.#failure(late.signal.aborted ? late.signal.reason : error);
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    this.#agents.close();
    this.#streams.close();
  }

  async *#chunks(response: http.IncomingMessage, { idle, signal }: StreamRequest): AsyncGenerator<Uint8Array> {
    // A reader that is slow is not the other side's silence: it counts only while we wait for more.
    const wait = () => setTimeout(() => response.destroy(silence()), idle);
    const leave = () => response.destroy();
    let timer = wait();
    if (signal?.aborted) leave();
    signal?.addEventListener('abort', leave, { once: true });
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        clearTimeout(timer);
        yield chunk;
        timer = wait();
      }
    } catch (error) {
      if (!signal?.aborted) throw this.#failure(error);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', leave);
      response.destroy();
    }
  }

  async #send(request: PeerRequest, signal: AbortSignal): Promise<PeerAnswer> {
    const attempt = this.#start(request, signal, this.#agents);
    let response: http.IncomingMessage;
    try {
      response = await attempt.response;
    } catch (error) {
      // A connection of the pool that the other side had closed just then: nobody has read the request.
      if (!request.repeatable || !attempt.sent.reusedSocket || !isReset(error)) throw error;
      return this.#send(request, signal);
    }
    return read(response);
  }

  #start(request: Omit<PeerRequest, 'deadline' | 'repeatable'>, signal: AbortSignal, agents: Agents) {
    const { method, path, query, headers, body } = request;
    const secure = this.#base.protocol === 'https:';
    const length =
      body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const sent = (secure ? https : http).request({
      hostname: this.#base.hostname.replace(/^\[|\]$/g, ''),
      port: this.#base.port || (secure ? 443 : 80),
      method,
      path: `${trimEnd(this.#base.pathname, isSlash)}${path}${query ? `?${query}` : ''}`,
      headers: { accept: 'application/json', ...(typeof headers === 'function' ? headers() : headers), ...length },
      agent: secure ? agents.https : agents.http,
      signal,
    });
    const response = new Promise<http.IncomingMessage>((resolve, reject) => {
      sent.once('response', resolve).on('error', reject);
    });
    sent.end(body);
    return { sent, response };
  }

  #failure(error: unknown): PeerError {
    const { clusterId, endpoint } = this.#address;
    const failure = toHttpClientError(error, this.#base.hostname);
    if (failure?.code === 'untrusted') {
      // What a certificate says is text of the other side.
      const why = 'its certificate does not hold: give the cluster its own ca, or mend the certificate';
      return new PeerError('unreachable', `cluster "${clusterId}" at ${endpoint}: ${why}`, { cause: failure });
    }
    if (failure) return new PeerError('unreachable', `cluster "${clusterId}": ${failure.message}`, { cause: failure });
    return noManager(this.#address);
  }
}

async function read(response: http.IncomingMessage): Promise<PeerAnswer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length;
    // Leaving the loop closes the connection.
    if (length > LONGEST_ANSWER) throw new RangeError('the answer is longer than any that a manager gives');
    chunks.push(chunk);
  }
  const { statusCode = 0, headers } = response;
  const body = Buffer.concat(chunks);
  return {
    status: statusCode,
    json: /^application\/json\b/i.test(headers['content-type'] ?? '') ? jsonOf(body) : undefined,
    isEmpty: length === 0,
    ...(statusCode >= 400 && { text: body.toString().slice(0, LONGEST_TEXT) }),
    date: dateOf(response),
    worker: headers[WORKER_HEADER]?.toString(),
  };
}

function dateOf({ headers }: http.IncomingMessage): number | undefined {
  const date = Date.parse(headers.date ?? '');
  return Number.isNaN(date) ? undefined : date;
}

const silence = () => new DOMException('no answer in time', 'TimeoutError');

async function* nothing(): AsyncGenerator<never, undefined> {}

function jsonOf(body: Buffer): unknown {
  try {
    return parseJson(body);
  } catch {
    return undefined;
  }
}

const isReset = (error: unknown) => ['ECONNRESET', 'EPIPE'].includes(codeOf(error));

const codeOf = (error: unknown) =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
