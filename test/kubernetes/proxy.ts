import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
}

/** Stands between a manager and the API server, and does what networks do. */
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

  /** Connections that are there now. */
  get connections(): number {
    return this.#pairs.size;
  }

  /** Cuts all connections; new ones are served. */
  cut(): void {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
  }

  /** Cuts all connections, and every new one at once, until it is opened. */
  refuse(): void {
    this.#mode = 'refusing';
    this.cut();
  }

  /** Lets nothing through any more, and ends nothing: a network that has gone silent. */
  hold(): void {
    this.#mode = 'held';
    for (const pair of this.#pairs) still(pair);
  }

  /** The same for the connections there are now; new ones are served. */
  holdThese(): void {
    for (const pair of this.#pairs) still(pair);
  }

  /** What was held stays dead; new connections are served. */
  open(): void {
    if (this.#mode === 'held') this.cut();
    this.#mode = 'open';
  }

  /**
   * Of every connection there is now, the next answer is lost and the connection cut: the server has done what it was
   * asked, and nobody is told. With `refuse` no new connection is served either, until it is opened.
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
