import { once } from 'node:events';
import { createServer } from 'node:net';
import { ClientError } from '../client/errors.ts';

/** Further from the wanted one nobody would look for it. */
const FARTHEST = 500;

/** The wanted port of loopback, or the next that nobody uses and that is not promised to somebody else. */
export async function freePort(wanted: number, promised: ReadonlySet<number>): Promise<number> {
  for (let port = wanted; port < Math.min(wanted + FARTHEST, 65_536); port++) {
    if (!promised.has(port) && (await isFree(port))) return port;
  }
  throw new ClientError('failed', `no port from ${wanted} on is free: choose others with --port`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen({ port, host: '127.0.0.1', exclusive: true });
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
