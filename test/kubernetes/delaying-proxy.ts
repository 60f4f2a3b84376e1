import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Milliseconds, at least and at most. */
export type DelayRange = readonly [least: number, most: number];

const NO_DELAY: DelayRange = [0, 0];

/**
 * The way to a server that works, and takes its time over each answer. Answers do not wait for each other, as they would on a
 * line that is too thin: what is late is late by itself, and comes in order.
 */
export class DelayingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #delay = NO_DELAY;

  private constructor(target: number) {
    this.#server = createServer((client) => this.#connect(client, target));
  }

  static async start(target: number): Promise<DelayingProxy> {
    const way = new DelayingProxy(target);
    way.#server.listen(0, '127.0.0.1');
    await once(way.#server, 'listening');
    return way;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address ? address.port : 0;
  }

  /** From now on, each by another amount. */
  setDelay(lateness: DelayRange = NO_DELAY): void {
    this.#delay = lateness;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await once(this.#server.close(), 'close');
  }

  #connect(client: Socket, target: number): void {
    const server = connect(target, '127.0.0.1');
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from);
      from.setNoDelay(true);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        to.destroy();
        this.#sockets.delete(from);
      });
    }
    client.pipe(server);
    // Timers of one moment come in any order, and what they are for must not.
    const waiting: Buffer[] = [];
    let free = 0;
    server.on('data', (chunk: Buffer) => {
      const [least, most] = this.#delay;
      const now = performance.now();
      free = Math.max(free, now + least + Math.random() * (most - least));
      waiting.push(chunk);
      setTimeout(() => {
        const next = waiting.shift();
        if (next && !client.destroyed) client.write(next);
      }, free - now);
    });
  }
}
