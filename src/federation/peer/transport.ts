import http from 'node:http';
import https from 'node:https';
import { parseJson } from '../../base/json.ts';
import {
  type Agents,
  allowedAddresses,
  connectionFailure,
  createAgents,
  type Network,
  type Resolver,
} from '../../outbound/index.ts';
import { type PeerAddress, PeerError } from './peer.ts';
import { noManager } from './problems.ts';

/** One request to a manager. */
export interface PeerRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** From the endpoint on: `/system/…`. */
  readonly path: string;
  /** Without the question mark. */
  readonly query?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Milliseconds until all of the answer is here. */
  readonly deadline: number;
  /** Does it do no harm when it arrives twice? */
  readonly repeatable: boolean;
}

export interface PeerAnswer {
  readonly status: number;
  /** Undefined when the body is none that we read. */
  readonly json: unknown;
  readonly isEmpty: boolean;
  /** The clock over there, to the second. */
  readonly date: number | undefined;
}

export interface TransportOptions {
  /** What of the operator's own networks users may name. */
  readonly networks: readonly Network[];
  readonly resolve?: Resolver;
}

/** Requests at one manager at a time. More: a slow one holds more of our memory. Fewer: fifty federations wait for each other. */
const MOST_AT_ONCE = 8;

/** Definitions are the longest that managers show each other, and those are far below. */
const LONGEST_ANSWER = 256 * 1024;

/** The way to one manager: pooled connections, a deadline, a limit on what is read, and nobody is followed elsewhere. */
export class Transport {
  readonly #address: PeerAddress;
  readonly #base: URL;
  readonly #agents: Agents;
  #underWay = 0;

  constructor(address: PeerAddress, { networks, resolve }: TransportOptions) {
    this.#address = address;
    this.#base = new URL(address.endpoint);
    this.#agents = createAgents({
      verify: address.verify,
      mostConnections: MOST_AT_ONCE,
      ...(address.ca !== undefined && { ca: address.ca }),
      ...(address.guarded && { allowed: allowedAddresses(networks) }),
      ...(resolve && { resolve }),
    });
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

  close(): void {
    this.#agents.close();
  }

  async #send(request: PeerRequest, signal: AbortSignal): Promise<PeerAnswer> {
    const attempt = this.#start(request, signal);
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

  #start({ method, path, query, headers, body }: PeerRequest, signal: AbortSignal) {
    const secure = this.#base.protocol === 'https:';
    const length =
      body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const sent = (secure ? https : http).request({
      hostname: this.#base.hostname.replace(/^\[|\]$/g, ''),
      port: this.#base.port || (secure ? 443 : 80),
      method,
      path: `${this.#base.pathname.replace(/\/+$/, '')}${path}${query ? `?${query}` : ''}`,
      headers: { accept: 'application/json', ...headers, ...length },
      agent: secure ? this.#agents.https : this.#agents.http,
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
    const failure = connectionFailure(error, this.#base.hostname);
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
  const date = Date.parse(headers.date ?? '');
  return {
    status: statusCode,
    json: /^application\/json\b/i.test(headers['content-type'] ?? '') ? jsonOf(Buffer.concat(chunks)) : undefined,
    isEmpty: length === 0,
    date: Number.isNaN(date) ? undefined : date,
  };
}

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
