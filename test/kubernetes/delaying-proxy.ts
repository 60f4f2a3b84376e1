import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** Minimum and maximum, in milliseconds. */
export type DelayRange = readonly [least: number, most: number];

const NO_DELAY: DelayRange = [0, 0];

/**
 * A proxy to a working server that delays each answer. Each answer is delayed independently, unlike on a slow link;
 * within a connection the order is kept.
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

  /** Delays each answer from now on by a random amount of this range. */
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
    // Timers for the same moment may fire in any order, so each timer sends the oldest chunk.
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
