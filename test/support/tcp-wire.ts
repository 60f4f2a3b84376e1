import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { listenAt, listenLastingly } from './lasting-port.ts';

/**
 * A TCP proxy in front of a server that can simulate network faults. Held bytes are not lost: they are delivered when the
 * fault is repaired, even if the sender has given up by then.
 */
export interface TcpWire extends AsyncDisposable {
  readonly url: string;
  /** Stops listening and resets open connections. */
  cut(): Promise<void>;
  /** Holds all bytes from now on. */
  stall(): void;
  /** Delays all bytes by this much. */
  slow(ms: number): void;
  /** Repairs all faults; the address stays the same. */
  mend(): Promise<void>;
}

export async function startTcpWire(port: number): Promise<TcpWire> {
  const open = new Set<Socket>();
  let held: PromiseWithResolvers<void> | undefined;
  let delay = 0;

  const passes = async () => {
    if (delay > 0) await pause(delay);
    await held?.promise;
  };

  const server = createServer({ allowHalfOpen: true }, (client) => void join(client));

  async function join(client: Socket): Promise<void> {
    keep(client);
    await passes();
    const upstream = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    keep(upstream);
    await Promise.all([carry(client, upstream), carry(upstream, client)]);
  }

  function keep(socket: Socket): void {
    open.add(socket);
    socket.setNoDelay(true);
    // The reader of the connection gets the error too.
    socket.on('error', () => undefined);
    socket.on('close', () => open.delete(socket));
  }

  async function carry(from: Socket, to: Socket): Promise<void> {
    try {
      for await (const chunk of from) {
        await passes();
        if (!to.write(chunk as Buffer) && !to.destroyed) await Promise.race([once(to, 'drain'), once(to, 'close')]);
      }
      await passes();
      to.end();
    } catch {
      to.destroy();
    }
  }

  function release(): void {
    delay = 0;
    held?.resolve();
    held = undefined;
  }

  async function cut(): Promise<void> {
    for (const socket of open) socket.destroy();
    if (!server.listening) return;
    server.close();
    for (const socket of open) socket.destroy();
    await once(server, 'close');
  }

  const own = await listenLastingly(server);
  return {
    url: `http://127.0.0.1:${own}`,
    cut,
    stall() {
      held ??= Promise.withResolvers();
    },
    slow(ms) {
      delay = ms;
    },
    async mend() {
      release();
      if (!server.listening) await listenAt(server, own);
    },
    async [Symbol.asyncDispose]() {
      release();
      await cut();
    },
  };
}
