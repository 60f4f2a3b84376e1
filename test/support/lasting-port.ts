import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Ports that nobody gets who does not ask for one of them. Those that the system gives away, from 32768 on, it also gives to
 * whoever dials: a server that comes back to such a port after a while may find it taken. Below are ports that servers have by
 * default (10250 and on: Kubernetes), or believe to have: a MinIO with its console off still refuses to listen at 13333.
 */
const [FIRST, LAST] = [14_000, 19_999];
const TRIES = 100;

/** Listens on loopback, at a port to which the server can come back. Resolves to that port. */
export async function listenLastingly(server: Server): Promise<number> {
  for (let tries = 1; ; tries++) {
    const port = randomInt(FIRST, LAST + 1);
    if (!claim(port)) continue;
    try {
      await listenAt(server, port);
      return port;
    } catch (error) {
      if (tries >= TRIES) throw error;
    }
  }
}

const CLAIMS = join(tmpdir(), 'oscar-test-ports');
const claimed = new Set<string>();

/**
 * Until this process ends, no other test takes it, also while nobody listens there. False if it is another's. What a process that
 * was killed had claimed is free again.
 */
function claim(port: number): boolean {
  mkdirSync(CLAIMS, { recursive: true });
  const path = join(CLAIMS, String(port));
  try {
    writeFileSync(path, String(process.pid), { flag: 'wx' });
  } catch {
    if (!isForsaken(path)) return false;
    rmSync(path, { force: true });
    return claim(port);
  }
  if (claimed.size === 0) process.once('exit', () => claimed.forEach((each) => rmSync(each, { force: true })));
  claimed.add(path);
  return true;
}

function isForsaken(path: string): boolean {
  try {
    const pid = Number(readFileSync(path, 'utf8'));
    // Its name is being written, or it is gone by now.
    if (pid === 0) return false;
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH';
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
