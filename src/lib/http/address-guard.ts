import { type LookupAddress, lookup } from 'node:dns';
import http from 'node:http';
import https from 'node:https';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { buildConnector } from 'undici';
import createConnector from 'undici/lib/core/connect.js';
import type { AddressRule } from './allowed-address.ts';
import { HttpClientError } from './errors.ts';
import { openTunnel } from './proxy.ts';

export interface ConnectOptions {
  /** Which addresses may be connected to; all if absent. */
  readonly allowed?: AddressRule;
  /** Verify the server's certificate? */
  readonly verify: boolean;
  /** The certificate authorities to verify with, as PEM; those of the system if absent. */
  readonly ca?: string;
  /** Milliseconds until the connection is established, TLS included. */
  readonly connectDeadline?: number;
  /** Resolves a host name; the system's resolver if absent. */
  readonly resolve?: Resolver;
}

export type Resolver = (host: string, found: (error: Error | null, candidates: LookupAddress[]) => void) => void;

/**
 * Default of `connectDeadline`. Shorter: a store on another continent behind a slow resolver counts as down. Longer: a request to
 * a dead host fails later.
 */
const CONNECT_DEADLINE = 10_000;

/**
 * How long one of several addresses is tried before the next. Node's 250 ms give up a healthy host on another continent
 * and then fail with the address family that the network does not have.
 */
const ATTEMPT = 1_000;

export type Protocol = 'http' | 'https';

/** Refuses a host that is itself an address, which is never looked up. */
export function refuseAddress(host: string, over: Protocol, { allowed }: ConnectOptions): HttpClientError | undefined {
  return isIP(host) === 0 ? undefined : refusal(host, host, over, allowed);
}

/**
 * Options for `net.connect` and `tls.connect`. The address that was checked is the address that is connected to, so a name cannot
 * resolve differently after the check (decision 0016).
 */
export function guardedSocketOptions(over: Protocol, { allowed, resolve = systemResolver }: ConnectOptions) {
  const check = (host: string, address: string) => refusal(host, address, over, allowed);
  return {
    lookup: checkedLookup(resolve, check, allowed !== undefined),
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ATTEMPT,
  };
}

const systemResolver: Resolver = (host, found) => lookup(host, { all: true }, found);

type Check = (host: string, address: string) => HttpClientError | undefined;

function checkedLookup(resolve: Resolver, check: Check, isGuarded: boolean): LookupFunction {
  return (host, { all, family }, callback) => {
    resolve(host, (error, found) => {
      // One answer for a name that does not exist and one of an internal address: users must not learn what a name resolves to.
      if (error) return callback(isGuarded ? nameRefused(host) : error, '');
      const wanted = found.filter((each) => !family || family === each.family);
      const candidates = wanted.filter(({ address }) => !check(host, address));
      const [first] = candidates;
      if (!first) {
        const refused = wanted.map(({ address }) => check(host, address)).find((each) => each !== undefined);
        return callback(refused ?? (isGuarded ? nameRefused(host) : noAddress(host)), '');
      }
      return all ? callback(null, candidates) : callback(null, first.address, first.family);
    });
  };
}

function refusal(
  host: string,
  address: string,
  over: Protocol,
  allowed: AddressRule | undefined,
): HttpClientError | undefined {
  if (!allowed || allowed(address, over)) return undefined;
  const isName = host !== address;
  if (allowed(address, 'https')) {
    const subject = isName ? `"${host}"` : `the address ${address}`;
    const why = 'is one that definitions may name over https only: write the endpoint with https://';
    return new HttpClientError('address-refused', `${subject} ${why}`);
  }
  if (isName) return nameRefused(host);
  const why = 'is not one that definitions may name: ask the operator to add its network to OSCAR_PEER_NETWORKS';
  return new HttpClientError('address-refused', `the address ${address} ${why}`);
}

function nameRefused(host: string): HttpClientError {
  const why = 'check the name, or ask the operator to add its network to OSCAR_PEER_NETWORKS';
  return new HttpClientError('address-refused', `"${host}" has no address that definitions may name: ${why}`);
}

const noAddress = (host: string) =>
  new HttpClientError('unreachable', `"${host}" cannot be reached: it has no address`, { systemCode: 'ENOTFOUND' });

/** Destroys a socket that is not connected in time. */
export function limitConnect(socket: Socket, over: Protocol, host: string, deadline = CONNECT_DEADLINE): void {
  const timer = setTimeout(() => socket.destroy(connectTimeout(host, deadline)), deadline);
  const done = () => clearTimeout(timer);
  socket.once(over === 'http' ? 'connect' : 'secureConnect', done).once('close', done);
}

function connectTimeout(host: string, deadline: number): HttpClientError {
  const message = `"${host}" cannot be reached: no connection within ${deadline / 1000} s`;
  return new HttpClientError('unreachable', message, { systemCode: 'ETIMEDOUT' });
}

/** Further options of a connection that users cannot choose. */
export interface ConnectorOptions extends ConnectOptions {
  /** The client's own certificate and key, as PEM. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly servername?: string;
  /** A unix socket to connect to, whatever the host. */
  readonly socketPath?: string;
  /** A proxy to connect through. It resolves names itself, so `allowed` must be absent. */
  readonly proxy?: URL;
}

/** The connect hook of undici: makes guarded connections, and calls `onConnected` with each. */
export function guardedConnector(
  options: ConnectorOptions,
  onConnected: (socket: Socket) => void,
): buildConnector.connector {
  const { verify, ca, cert, key, servername, socketPath, proxy, connectDeadline = CONNECT_DEADLINE } = options;
  if (proxy && options.allowed) throw new TypeError('the address guard cannot check connections through a proxy');
  const shared = {
    rejectUnauthorized: verify,
    timeout: connectDeadline,
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(servername !== undefined && { servername }),
    ...(socketPath !== undefined && { socketPath }),
  };
  const connectorFor = (over: Protocol) => createConnector({ ...shared, ...guardedSocketOptions(over, options) });
  // One for each protocol, because the rule for addresses depends on it. They keep the TLS sessions to resume.
  const connectors = { http: connectorFor('http'), https: connectorFor('https') };
  return (given, callback) => {
    const over = given.protocol === 'https:' ? 'https' : 'http';
    const refused = refuseAddress(given.hostname, over, options);
    if (refused) return callback(refused, null);
    const connected: buildConnector.Callback = (error, socket) => {
      if (socket) {
        onConnected(socket);
        callback(null, socket);
      } else {
        callback(isConnectTimeout(error) ? connectTimeout(given.hostname, connectDeadline) : error, null);
      }
    };
    if (!proxy) return connectors[over](given, connected);
    const target = { hostname: given.hostname, port: Number(given.port || (over === 'https' ? 443 : 80)) };
    openTunnel(proxy, target, connectDeadline).then(
      (socket) =>
        over === 'https' ? connectors.https({ ...given, httpSocket: socket }, connected) : connected(null, socket),
      (error: Error) => connected(error, null),
    );
  };
}

const isConnectTimeout = (error: unknown) =>
  error instanceof Error && 'code' in error && error.code === 'UND_ERR_CONNECT_TIMEOUT';

/** Agents for node:http and node:https with the address guard, for the AWS SDK, which cannot use {@link HttpClient}. */
export interface Agents {
  readonly http: http.Agent;
  readonly https: https.Agent;
  close(): void;
}

/**
 * Agents of our own never use the proxies of the environment, with which an address check would mean nothing. Few idle
 * connections are kept: stores close them after some seconds, and each is a file descriptor.
 */
const POOL = { keepAlive: true, maxFreeSockets: 8, scheduling: 'lifo' } as const;

export function createAgents(options: ConnectOptions): Agents {
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

type Created = (error: Error | null, stream: Duplex) => void;

class GuardedHttpAgent extends http.Agent {
  readonly #options: ConnectOptions;

  constructor(options: ConnectOptions) {
    super(POOL);
    this.#options = options;
  }

  override createConnection(given: http.ClientRequestArgs, created?: Created): Duplex | null | undefined {
    const dial = (checked: http.ClientRequestArgs) => super.createConnection(checked);
    return connect(given, { ...this.#options, dial, over: 'http', created });
  }
}

class GuardedHttpsAgent extends https.Agent {
  readonly #options: ConnectOptions;

  constructor(options: ConnectOptions) {
    super({
      ...POOL,
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

interface Dialling extends ConnectOptions {
  readonly dial: (options: http.ClientRequestArgs) => Duplex | null | undefined;
  readonly over: Protocol;
  readonly created: Created | undefined;
}

function connect(given: http.ClientRequestArgs, dialling: Dialling): Duplex | null | undefined {
  const { connectDeadline, dial, over, created } = dialling;
  const host = given.host ?? 'localhost';
  const refused = refuseAddress(host, over, dialling);
  if (refused) {
    // By callback: a throw would not reach the 'error' listeners of the request.
    (created as ((error: Error) => void) | undefined)?.(refused);
    return undefined;
  }
  const socket = dial({ ...given, ...guardedSocketOptions(over, dialling) });
  if (socket) limitConnect(socket as Socket, over, host, connectDeadline);
  return socket;
}
