import { allowedAddresses, HttpClient, HttpClientError, type Network, type Resolver } from '../../lib/http/index.ts';
import type { Secret } from '../../lib/secret.ts';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import type { Offer, OfferAnswer, Target } from '../delegation-ports.ts';
import { wrapEvent } from '../messages/offer.ts';
import { PeerError } from '../peer.ts';

export interface EndpointOptions {
  readonly url: string;
  readonly verify: boolean;
  /** Headers that the definition of the service adds. */
  readonly headers: Readonly<Record<string, Secret>>;
  /** The operator's own networks that users may name. */
  readonly networks: readonly Network[];
  readonly resolve?: Resolver;
  readonly deadline?: number;
}

/**
 * Milliseconds that an endpoint may take: it answers when it has done its work
 * (docs/go-manager.md#federation-and-delegation). Shorter: a slow job is also offered to another member. Longer: a dead endpoint
 * delays the job.
 */
const DEADLINE = 20_000;

/** Requests to one endpoint at a time. */
const MAX_CONNECTIONS = 16;

/** Headers of the message framing and of the connection: a definition cannot set them. */
const RESERVED_HEADERS =
  /^(connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$|^proxy-/i;

/**
 * A member that is any HTTP server. It receives the event, and its status 200 is all we know of the job. Nothing else is sent to it:
 * no token, no key, no job id (F32).
 */
export class EndpointTarget implements Target {
  readonly #url: URL;
  readonly #headers: EndpointOptions['headers'];
  readonly #client: HttpClient;
  readonly #deadline: number;

  constructor({ url, verify, headers, networks, resolve, deadline = DEADLINE }: EndpointOptions) {
    this.#url = new URL(url);
    this.#headers = headers;
    this.#deadline = deadline;
    const allowed = allowedAddresses(networks);
    this.#client = new HttpClient({ verify, allowed, maxConnections: MAX_CONNECTIONS, ...(resolve && { resolve }) });
  }

  async offer({ event }: Offer): Promise<OfferAnswer> {
    const status = await this.#post(wrapEvent(event));
    if (status === 200) return { kind: 'taken', attempt: '', done: true };
    return { kind: 'refused', code: 'failed', reason: `the endpoint at ${this.#url.host} answered ${status}` };
  }

  /** An event that was sent cannot be withdrawn. */
  async stop(): Promise<void> {}

  logs(): AsyncIterable<Uint8Array> {
    const next = () => Promise.reject(this.#problem('keeps no logs'));
    return { [Symbol.asyncIterator]: () => ({ next }) };
  }

  status(): Promise<Snapshot> {
    return Promise.reject(this.#problem('has no status'));
  }

  close(): void {
    this.#client.close();
  }

  /** Reads only the status: the body is ignored, however long it is. */
  async #post(body: string): Promise<number> {
    const chosen = Object.entries(this.#headers).filter(([name]) => !RESERVED_HEADERS.test(name));
    const headers = Object.fromEntries(chosen.map(([name, value]) => [name.toLowerCase(), value.reveal()]));
    const all = { 'content-type': 'application/json', ...headers };
    const request = { method: 'POST', url: this.#url, headers: all, body, deadline: this.#deadline };
    try {
      const answer = await this.#client.open(request);
      answer.body.on('error', () => undefined).destroy();
      return answer.status;
    } catch (error) {
      if (!(error instanceof HttpClientError) || error.code === 'not-http')
        throw this.#problem('does not answer with HTTP, or the headers of the definition are not valid');
      throw new PeerError('unreachable', `the endpoint: ${error.message}`, { cause: error });
    }
  }

  #problem(why: string): PeerError {
    return new PeerError('failed', `the endpoint at ${this.#url.host} ${why}`);
  }
}
