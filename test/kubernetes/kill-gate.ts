import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { Certificates } from './certificates.ts';

/**
 * Whether the manager is killed before the server receives a write, or after the server has executed it and before the
 * manager gets the answer.
 */
export type Side = 'before' | 'after';

/** The side for each step. */
export type Round = (step: number) => Side;

/** Chooses the side of the first step. */
const SEED = Number(process.env['OSCAR_TEST_SEED'] ?? randomInt(2));

/** Printed, so that a failure can be repeated. */
export const REPEAT_HINT = `repeat with OSCAR_TEST_SEED=${SEED}`;

/** One side of each step. Another seed takes the other side. */
export const ONE_ROUND: readonly Round[] = [(step) => ((step + SEED) % 2 === 0 ? 'before' : 'after')];

/** Both sides of each step. */
export const BOTH_ROUNDS: readonly Round[] = [() => 'before', () => 'after'];

export interface StopPoint {
  /** The first write is number 1. */
  readonly at: number;
  readonly side: Side;
}

/** The writes about one name, up to the stop point. */
export class WriteSequence {
  /** `POST /api/v1/…`, in order of arrival. The last entry is the write at which the name is stopped. */
  writes: string[] = [];
  stopPoint: StopPoint | undefined;
  isStopped = false;

  /** Counts writes from here on. */
  begin(stopPoint?: StopPoint): void {
    this.writes = [];
    this.stopPoint = stopPoint;
  }
}

interface Target {
  readonly host: string;
  readonly port: number;
  /** Without certificates the connection is plain HTTP. */
  readonly certificates?: Certificates;
}

const WRITES = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

/** An id or a digest. It belongs to the name in whose write it first appeared. */
const IDS = /[0-9a-f]{40,64}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** The same in base64url. */
const SHORT_IDS = /(?<![\w-])[\w-]{43}(?![\w-])/g;

/** Values of a Secret. */
const BASE64 = /"([A-Za-z0-9+/]{40,}={0,2})"/g;

/**
 * A proxy between managers and the servers to which they write. It counts the writes about each name and stops a name
 * at a given write: from then on no request about this name passes until the manager is killed. For this name, the
 * manager was thus killed at this write. Many names can be stopped at the same time, each at its own step.
 */
export class WriteGate {
  readonly #sequences = new Map<string, WriteSequence>();
  /** Ids and digests that identify a name. */
  readonly #ids = new Map<string, WriteSequence | 'common'>();
  readonly #servers: http.Server[] = [];
  readonly #agents: http.Agent[] = [];
  readonly #held = new Set<http.ServerResponse>();
  #clockOffset = 0;

  /** Starts a proxy to the target; resolves to its port on loopback. */
  async listenBefore(target: Target): Promise<number> {
    const { certificates } = target;
    const pki = (file: string) => certificates && readFileSync(certificates.path(file));
    const agent = certificates
      ? new https.Agent({ keepAlive: true, ca: pki('ca.crt') })
      : new http.Agent({ keepAlive: true });
    this.#agents.push(agent);
    const handle = (request: http.IncomingMessage, response: http.ServerResponse) =>
      void this.#handle(request, response, target, agent).catch(() => response.destroy());
    const server = certificates
      ? https.createServer({ cert: pki('apiserver.crt'), key: pki('apiserver.key') }, handle)
      : http.createServer(handle);
    this.#servers.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }

  /**
   * Requests are assigned to a name by their content, so no name may be contained in another name or in any other text.
   */
  track(name: string): WriteSequence {
    const sequence = new WriteSequence();
    this.#sequences.set(name, sequence);
    return sequence;
  }

  /** Forwards all requests from now on, and counts none. */
  open(): void {
    this.#sequences.clear();
    this.#ids.clear();
    for (const response of this.#held) response.destroy();
    this.#held.clear();
  }

  /** Shifts the `Date` of all answers into the future, so that leases look expired. */
  advanceClock(milliseconds: number): void {
    this.#clockOffset = milliseconds;
  }

  stop(): void {
    this.open();
    for (const server of this.#servers) {
      server.close();
      server.closeAllConnections();
    }
    for (const agent of this.#agents) agent.destroy();
  }

  async #handle(
    request: http.IncomingMessage,
    response: http.ServerResponse,
    target: Target,
    agent: http.Agent,
  ): Promise<void> {
    const { method = '', url = '' } = request;
    const body = await buffer(request);
    const sequence = this.#findSequence(url, body, WRITES.has(method));
    if (sequence?.isStopped) return reject(response);
    const step = sequence && WRITES.has(method) ? sequence.writes.push(`${method} ${url}`) : 0;
    const side = sequence && step === sequence.stopPoint?.at ? sequence.stopPoint.side : undefined;
    // No other request about this name may pass while we wait for the answer.
    if (sequence && side) sequence.isStopped = true;
    if (side === 'before') return void this.#held.add(response);
    const answer = await forward(request, body, target, agent);
    if (side === 'after') {
      await buffer(answer);
      return void this.#held.add(response);
    }
    response.writeHead(answer.statusCode ?? 500, this.#shiftDate(answer.headers));
    response.on('close', () => answer.destroy());
    answer.on('error', () => response.destroy());
    answer.pipe(response);
  }

  #findSequence(url: string, body: Buffer, writes: boolean): WriteSequence | undefined {
    const text = `${url}\n${body.toString()}`;
    const whole = [text, ...text.matchAll(BASE64).map(([, packed = '']) => Buffer.from(packed, 'base64').toString())];
    const short = (text.match(SHORT_IDS) ?? []).map((id) => Buffer.from(id, 'base64url').toString('hex'));
    const ids = [...short, ...whole.flatMap((part) => part.match(IDS) ?? [])];
    const named = [...this.#sequences].find(([name]) => whole.some((part) => part.includes(name)))?.[1];
    const sequence =
      named ?? ids.map((id) => this.#ids.get(id)).find((known) => known !== undefined && known !== 'common');
    if (writes) for (const id of ids) this.#recordId(id, sequence);
    return sequence;
  }

  #recordId(id: string, sequence: WriteSequence | undefined): void {
    const known = this.#ids.get(id);
    if (known !== sequence) this.#ids.set(id, known === undefined && sequence ? sequence : 'common');
  }

  #shiftDate(headers: http.IncomingHttpHeaders): http.IncomingHttpHeaders {
    const { date } = headers;
    if (date === undefined || this.#clockOffset === 0) return headers;
    return { ...headers, date: new Date(Date.parse(date) + this.#clockOffset).toUTCString() };
  }
}

function reject(response: http.ServerResponse): void {
  const status = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 503, message: 'stopped by the test' };
  response.writeHead(503, { 'content-type': 'application/json' }).end(JSON.stringify(status));
}

async function forward(
  { method, url, headers }: http.IncomingMessage,
  body: Buffer,
  { host, port, certificates }: Target,
  agent: http.Agent,
): Promise<http.IncomingMessage> {
  const options = { host, port, method, path: url, headers, agent };
  const sent = certificates ? https.request(options) : http.request(options);
  sent.end(body);
  const [answer] = (await once(sent, 'response')) as [http.IncomingMessage];
  return answer;
}
