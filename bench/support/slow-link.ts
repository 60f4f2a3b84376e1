import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { TEST_CERTIFICATE, TEST_KEY } from '../../src/lib/http/certificate.fixture.ts';

export interface SlowLink extends AsyncDisposable {
  readonly url: string;
}

export interface SlowLinkOptions {
  readonly roundTripMs: number;
  /** Pieces that it carries towards the manager; what follows is lost without a word. All, if not said. */
  readonly pieces?: number;
  /** Speak TLS to whoever comes over it; the manager behind it does not. */
  readonly tls?: boolean;
  /** Told of each piece that has come over it from the manager. */
  readonly arrived?: (piece: Buffer) => void;
}

/**
 * A way to a manager that takes as long as one through a network: half of the round trip for each direction, and one whole
 * before anything is carried, which is what opening a connection takes there and does not take on loopback.
 */
export async function startSlowLink(manager: string, options: SlowLinkOptions): Promise<SlowLink> {
  const { port } = new URL(manager);
  if (!options.tls) return listen(createServer(carriedTo(Number(port), options)), 'http');
  const secure = await listen(
    createTlsServer({ cert: TEST_CERTIFICATE, key: TEST_KEY }, joinedTo(Number(port))),
    'https',
  );
  const link = await listen(createServer(carriedTo(Number(new URL(secure.url).port), options)), 'https');
  return {
    url: link.url,
    async [Symbol.asyncDispose]() {
      await link[Symbol.asyncDispose]();
      await secure[Symbol.asyncDispose]();
    },
  };
}

function carriedTo(port: number, { roundTripMs, pieces = Number.POSITIVE_INFINITY, arrived }: SlowLinkOptions) {
  let carried = 0;
  return (near: Socket) => {
    const opened = performance.now() + roundTripMs;
    const far = connectTo(port, near);
    carry(near, far, roundTripMs / 2, { opened, isLost: () => carried++ >= pieces });
    carry(far, near, roundTripMs / 2, { opened: 0, isLost: () => false, ...(arrived && { arrived }) });
  };
}

const joinedTo = (port: number) => (near: Socket) => {
  near.pipe(connectTo(port, near)).pipe(near);
};

function connectTo(port: number, near: Socket): Socket {
  const far = connect({ port, host: '127.0.0.1', noDelay: true });
  near.setNoDelay(true);
  for (const [one, other] of [
    [near, far],
    [far, near],
  ] as const) {
    one.on('error', () => other.destroy()).once('close', () => other.destroy());
  }
  return far;
}

function carry(
  from: Socket,
  to: Socket,
  ms: number,
  { opened, isLost, arrived }: { opened: number; isLost: () => boolean; arrived?: (piece: Buffer) => void },
): void {
  // Timers may come in another order than they were set; what they carry does not.
  const underWay: Buffer[] = [];
  from.on('data', (piece: Buffer) => {
    if (isLost()) return;
    underWay.push(piece);
    const now = performance.now();
    const deliver = () => {
      const next = underWay.shift() ?? Buffer.alloc(0);
      to.write(next);
      arrived?.(next);
    };
    setTimeout(deliver, Math.max(now, opened) + ms - now);
  });
}

async function listen(server: Server, protocol: string): Promise<SlowLink> {
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `${protocol}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
