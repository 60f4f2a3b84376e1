import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/**
 * Ports that nobody gets who does not ask for one of them. Those that the system gives away, from 32768 on, it also gives to
 * whoever dials: a server that comes back to such a port after a while may find it taken.
 */
const [FIRST, LAST] = [10_240, 19_999];
const TRIES = 100;

/** Listens on loopback, at a port to which the server can come back. Resolves to that port. */
export async function listenLastingly(server: Server): Promise<number> {
  for (let tries = 1; ; tries++) {
    const port = randomInt(FIRST, LAST + 1);
    try {
      await listenAt(server, port);
      return port;
    } catch (error) {
      if (tries === TRIES) throw error;
    }
  }
}

export async function listenAt(server: Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
}

/** Such ports, for processes that are to come back to them. All are held until all are known, so that they differ. */
export async function lastingPorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports = await Promise.all(servers.map(listenLastingly));
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}
