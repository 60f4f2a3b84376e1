import { type LookupAddress, lookup } from 'node:dns';
import http from 'node:http';
import https from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { Duplex } from 'node:stream';
import type { AddressRule } from './allowed-address.ts';
import { HttpClientError } from './errors.ts';

export interface AgentOptions {
  /** Which addresses may be dialled; every one if absent. */
  readonly allowed?: AddressRule;
  /** Is the certificate looked at? */
  readonly verify: boolean;
  /** The authorities it is looked at with, as PEM; those of the system if absent. */
  readonly ca?: string;
  /** Connections to one host at a time, beyond which requests wait; as many as there are requests if absent. */
  readonly mostConnections?: number;
  /** Milliseconds until the connection stands, TLS included. */
  readonly connectDeadline?: number;
  /** The addresses of a name; the system's if absent. */
  readonly resolve?: Resolver;
}

export type Resolver = (host: string, found: (error: Error | null, candidates: LookupAddress[]) => void) => void;

/**
 * Agents for node:http and node:https. A connection is dialled only to an address that was checked; the answer of the
 * resolver that was checked is the one that is dialled, so that a name cannot mean something else a moment later.
 */
export interface Agents {
  readonly http: http.Agent;
  readonly https: https.Agent;
  close(): void;
}

/** Shorter: a store on another continent behind a slow resolver is given up. Longer: a dead one delays what fails anyway. */
const CONNECT_DEADLINE = 10_000;

/**
 * How long one of several addresses is tried before the next. Node's 250 ms give up a healthy host on another continent
 * and then fail with the address family that the network does not have.
 */
const ATTEMPT = 1_000;

/**
 * Agents of their own never use the proxies of the environment, in which an address check would mean nothing. Few idle
 * connections are kept: stores close them after some seconds, and every one is a file descriptor.
 */
const POOL = { keepAlive: true, maxFreeSockets: 8, scheduling: 'lifo' } as const;

export function createAgents(options: AgentOptions): Agents {
  const plain = new GuardedHttpAgent(options);
  const secure = new GuardedHttpsAgent(options);
  return {
    http: plain,
    https: secure,
    close() {
      plain.destroy();
      secure.destroy();
    },
  };
}

const poolOf = ({ mostConnections }: AgentOptions) => ({
  ...POOL,
  ...(mostConnections !== undefined && { maxSockets: mostConnections }),
});

type Created = (error: Error | null, stream: Duplex) => void;

class GuardedHttpAgent extends http.Agent {
  readonly #options: AgentOptions;

  constructor(options: AgentOptions) {
    super(poolOf(options));
    this.#options = options;
  }

  override createConnection(given: http.ClientRequestArgs, created?: Created): Duplex | null | undefined {
    const dial = (checked: http.ClientRequestArgs) => super.createConnection(checked);
    return connect(given, { ...this.#options, dial, over: 'http', created });
  }
}

class GuardedHttpsAgent extends https.Agent {
  readonly #options: AgentOptions;

  constructor(options: AgentOptions) {
    super({
      ...poolOf(options),
      rejectUnauthorized: options.verify,
      ...(options.ca !== undefined && { ca: options.ca }),
    });
    this.#options = options;
  }

  override createConnection(given: https.RequestOptions, created?: Created): Duplex | null | undefined {
    const dial = (checked: http.ClientRequestArgs) => super.createConnection(checked);
    return connect(given, { ...this.#options, dial, over: 'https', created });
  }
}

interface Dialling extends AgentOptions {
  readonly dial: (options: http.ClientRequestArgs) => Duplex | null | undefined;
  readonly over: 'http' | 'https';
  readonly created: Created | undefined;
}

/** Dials names through a lookup that checks. An address as it stands is checked now, since nobody looks it up. */
function connect(given: http.ClientRequestArgs, dialling: Dialling): Duplex | null | undefined {
  const { allowed, resolve = system, connectDeadline, dial, over, created } = dialling;
  const host = given.host ?? 'localhost';
  const check = (address: string) => refusal(host, address, over, allowed);
  const refused = isIP(host) === 0 ? undefined : check(host);
  if (refused) {
    // Told, not thrown: whoever makes a request listens for its errors.
    (created as ((error: Error) => void) | undefined)?.(refused);
    return undefined;
  }
  const checked = checkedLookup(resolve, check);
  const options = { ...given, lookup: checked, autoSelectFamily: true, autoSelectFamilyAttemptTimeout: ATTEMPT };
  const socket = dial(options);
  if (socket) limit(socket, over === 'http' ? 'connect' : 'secureConnect', host, connectDeadline);
  return socket;
}

const system: Resolver = (host, found) => lookup(host, { all: true }, found);

function checkedLookup(resolve: Resolver, check: (address: string) => HttpClientError | undefined): LookupFunction {
  return (host, { all, family }, callback) => {
    resolve(host, (error, found) => {
      if (error) return callback(error, '');
      const wanted = found.filter((each) => !family || family === each.family);
      const candidates = wanted.filter(({ address }) => !check(address));
      const [first] = candidates;
      if (!first) return callback((wanted[0] && check(wanted[0].address)) ?? unknown(host), '');
      return all ? callback(null, candidates) : callback(null, first.address, first.family);
    });
  };
}

function refusal(
  host: string,
  address: string,
  over: 'http' | 'https',
  allowed: AddressRule | undefined,
): HttpClientError | undefined {
  if (!allowed || allowed(address, over)) return undefined;
  const subject = host === address ? `the address ${address}` : `the address ${address} of "${host}"`;
  const why = allowed(address, 'https')
    ? 'is one that definitions may name over https only: write the endpoint with https://'
    : 'is not one that definitions may name: ask the operator to add its network to OSCAR_PEER_NETWORKS';
  return new HttpClientError('address-refused', `${subject} ${why}`);
}

const unknown = (host: string) => new HttpClientError('unreachable', `"${host}" cannot be reached: it has no address`);

function limit(socket: Duplex, standing: string, host: string, deadline = CONNECT_DEADLINE): void {
  const timer = setTimeout(() => {
    const why = `"${host}" cannot be reached: no connection within ${deadline / 1000} s`;
    socket.destroy(new HttpClientError('unreachable', why));
  }, deadline);
  const done = () => clearTimeout(timer);
  socket.once(standing, done).once('close', done);
}
