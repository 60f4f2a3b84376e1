/**
 * The program of the starter: a small process that starts scripts for the manager (see `starter.ts`). It exits when the
 * manager disconnects or dies; the scripts that it started continue.
 */
import { once } from 'node:events';
import { setPriority } from 'node:os';
import type { StarterMessage, StarterRequest } from './starter.ts';
import { scriptNiceness, spawnOrder, toWrapperExit } from './wrapper.ts';

/** Sending fails if the manager has died; then this process exits too. */
const send = (message: StarterMessage) => process.send?.(message, () => {});

async function start({ id, order }: StarterRequest): Promise<void> {
  try {
    const child = spawnOrder(order, '');
    child.once('exit', (code, signal) => send({ kind: 'ended', id, end: toWrapperExit(code, signal) }));
    await once(child, 'spawn');
    send({ kind: 'started', id, pid: child.pid ?? 0 });
  } catch (error) {
    send({ kind: 'refused', id, reason: error instanceof Error ? error.message : String(error) });
  }
}

process.on('message', (message: StarterRequest) => void start(message));
process.once('disconnect', () => process.exit());
// A terminal sends these to the whole process group although they are meant for the manager.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

// Inherited by every script that the starter starts.
setPriority(scriptNiceness());
send({ kind: 'ready' });
