import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
}

/** A proxy between a manager and the API server that simulates network faults. */
export class Proxy {
  readonly #server: Server;
  readonly #target: number;
  readonly #host: string;
  readonly #pairs = new Set<Pair>();
  readonly #losing = new WeakSet<Pair>();
  #mode: 'open' | 'refusing' | 'held' = 'open';

  private constructor(target: number, host: string) {
    this.#target = target;
    this.#host = host;
    this.#server = createServer((client) => this.#accept(client));
  }

  static async start(target: number, host = '127.0.0.1'): Promise<Proxy> {
    const proxy = new Proxy(target, host);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address ? address.port : 0;
  }

  /** The number of open connections. */
  get connections(): number {
    return this.#pairs.size;
  }

  /** Closes all connections; new ones are accepted. */
  cut(): void {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
  }

  /** Closes all connections, and rejects new ones until `open`. */
  refuse(): void {
    this.#mode = 'refusing';
    this.cut();
  }

  /** Stops all traffic without closing connections, like a network partition. */
  hold(): void {
    this.#mode = 'held';
    for (const pair of this.#pairs) still(pair);
  }

  /** Stops the traffic of the existing connections only; new ones work. */
  holdThese(): void {
    for (const pair of this.#pairs) still(pair);
  }

  /** Accepts new connections again; connections that were held are closed. */
  open(): void {
    if (this.#mode === 'held') this.cut();
    this.#mode = 'open';
  }

  /**
   * Drops the next answer of every existing connection and closes it: the server has executed the request, but the
   * client does not learn it. With `refuse`, new connections are rejected too, until `open`.
   */
  loseAnswers({ refuse = false } = {}): void {
    if (refuse) this.#mode = 'refusing';
    for (const pair of this.#pairs) {
      if (this.#losing.has(pair)) continue;
      this.#losing.add(pair);
      const { client, server } = pair;
      server.unpipe(client);
      server.once('data', () => {
        client.destroy();
        server.destroy();
      });
      server.resume();
    }
  }

  async stop(): Promise<void> {
    this.cut();
    await once(this.#server.close(), 'close');
  }

  #accept(client: Socket): void {
    if (this.#mode === 'refusing') {
      client.destroy();
      return;
    }
    const pair = { client, server: connect(this.#target, this.#host) };
    this.#pairs.add(pair);
    for (const [from, to] of [
      [client, pair.server],
      [pair.server, client],
    ] as const) {
      from.on('error', () => to.destroy());
      from.on('close', () => {
        to.destroy();
        this.#pairs.delete(pair);
      });
      from.pipe(to);
    }
    if (this.#mode === 'held') still(pair);
  }
}

function still({ client, server }: Pair): void {
  for (const [from, to] of [
    [client, server],
    [server, client],
  ] as const) {
    from.unpipe(to);
    from.pause();
  }
}
