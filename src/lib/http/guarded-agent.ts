import http from 'node:http';
import https from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import {
  type ConnectOptions,
  guardedSocketOptions,
  limitConnect,
  type Protocol,
  refuseAddress,
} from './address-guard.ts';

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
