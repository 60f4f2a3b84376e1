import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { listenAt, listenLastingly } from './lasting-port.ts';

/**
 * The way to a server, byte by byte, on which any fault of a network can be made. What is held up is not lost: it arrives
 * when the wire is mended, also if whoever sent it has given up by then.
 */
export interface TcpWire extends AsyncDisposable {
  readonly url: string;
  /** Nobody listens from now on, and what was open is broken off. */
  cut(): Promise<void>;
  /** Everything is held up from now on. */
  stall(): void;
  /** Everything takes that much longer. */
  slow(ms: number): void;
  /** All is well again, at the same address. */
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
    // Whoever reads from it sees it too.
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
