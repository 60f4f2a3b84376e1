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
import type { Secret } from '../../lib/secret.ts';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import type { Offer, OfferAnswer, Target } from '../delegation-ports.ts';
import { wrapEvent } from '../messages/offer.ts';
import { PeerError } from '../peer.ts';

export interface EndpointOptions {
  readonly url: string;
  readonly verify: boolean;
  /** What the owner of the service wants it to be sent. */
  readonly headers: Readonly<Record<string, Secret>>;
  /** What of the operator's own networks users may name. */
  readonly networks: readonly Network[];
  readonly resolve?: Resolver;
  readonly deadline?: number;
}

/**
 * How long an endpoint may take, in milliseconds: it answers when it has done its work
 * (docs/go-manager.md#federation-and-delegation). Shorter: what takes a while is asked of somebody else as well.
 * Longer: one that is dead keeps the job.
 */
const DEADLINE = 20_000;

/** Requests at one endpoint at a time. */
const MOST_AT_ONCE = 16;

/** These say how a message is sent, which is not for others to say. */
const NOT_OURS_TO_SET =
  /^(connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$|^proxy-/i;

/**
 * A member that is any server: it gets the event, and 200 is all that is known of it. Nothing of ours goes there but the
 * event: no token, no key, no name of a job (F32).
 */
export class EndpointTarget implements Target {
  readonly #url: URL;
  readonly #headers: EndpointOptions['headers'];
  readonly #agents: Agents;
  readonly #deadline: number;

  constructor({ url, verify, headers, networks, resolve, deadline = DEADLINE }: EndpointOptions) {
    this.#url = new URL(url);
    this.#headers = headers;
    this.#deadline = deadline;
    const allowed = allowedAddresses(networks);
    this.#agents = createAgents({ verify, allowed, mostConnections: MOST_AT_ONCE, ...(resolve && { resolve }) });
  }

  async offer({ event }: Offer): Promise<OfferAnswer> {
    const status = await this.#post(wrapEvent(event));
    if (status === 200) return { kind: 'taken', attempt: '', done: true };
    return { kind: 'refused', code: 'failed', reason: `the endpoint at ${this.#url.host} answered ${status}` };
  }

  /** What it has been given cannot be taken back. */
  async stop(): Promise<void> {}

  logs(): AsyncIterable<Uint8Array> {
    const next = () => Promise.reject(this.#problem('keeps no logs that anybody could ask for'));
    return { [Symbol.asyncIterator]: () => ({ next }) };
  }

  status(): Promise<Snapshot> {
    return Promise.reject(this.#problem('has no status that anybody could ask for'));
  }

  close(): void {
    this.#agents.close();
  }

  /** The status is all that is read: what it says is nobody's business here, however long it is. */
  async #post(body: string): Promise<number> {
    const secure = this.#url.protocol === 'https:';
    const signal = AbortSignal.timeout(this.#deadline);
    const given = Object.entries(this.#headers).filter(([name]) => !NOT_OURS_TO_SET.test(name));
    const headers = Object.fromEntries(given.map(([name, value]) => [name.toLowerCase(), value.reveal()]));
    try {
      return await new Promise<number>((resolve, reject) => {
        const options = {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers, 'content-length': Buffer.byteLength(body) },
          agent: secure ? this.#agents.https : this.#agents.http,
          signal,
        };
        const sent = (secure ? https : http).request(this.#url, options, (response) => {
          resolve(response.statusCode ?? 0);
          response.destroy();
        });
        sent.on('error', reject).end(body);
      });
    } catch (error) {
      const failure = toHttpClientError(signal.aborted ? signal.reason : error, this.#url.hostname);
      throw failure
        ? new PeerError('unreachable', `the endpoint: ${failure.message}`, { cause: failure })
        : this.#problem('does not speak HTTP as we do, or its headers are none');
    }
  }

  #problem(why: string): PeerError {
    return new PeerError('failed', `the endpoint at ${this.#url.host} ${why}`);
  }
}
