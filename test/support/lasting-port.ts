import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Ports that are in use only if a program asks for them. The kernel assigns ports from 32768 on also to outgoing connections,
 * so that a server which listens there again after a pause may find its port taken. Lower ports are defaults of servers
 * (Kubernetes: from 10250), and a MinIO without console still refuses to listen at 13333.
 */
const [FIRST, LAST] = [14_000, 19_999];
const TRIES = 100;

/** Listens on loopback, at a port where the server can listen again later. Resolves to that port. */
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
 * Claims a port for this process until it ends, even while no server listens there. False if another test process has claimed
 * it. Claims of processes that no longer exist are void.
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
    // The claim is being written, or was removed meanwhile.
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

/** Ports for processes that will be restarted at them. All are held open until all are known, so that they differ. */
export async function lastingPorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports = await Promise.all(servers.map(listenLastingly));
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}
