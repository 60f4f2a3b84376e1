import { once } from 'node:events';
import { getPriority, setPriority } from 'node:os';
import { leaderEnd } from './leader.ts';
import { spawnOrder } from './spawn-wrapper.ts';
import type { FromStarter, ToStarter } from './starter-process.ts';

/**
 * A process that starts scripts for the manager, because it is small: to start another process takes as long as it takes
 * to copy the page tables of the one that does. It ends when the manager lets go of it or is gone; what it started goes on.
 */

/** As `nice -n 5`, for all that it starts. */
const LESS_URGENT = 5;
const LEAST_URGENT = 19;

/** A manager that has gone meanwhile hears nothing, and then we go too. */
const tell = (message: FromStarter) => process.send?.(message, () => {});

async function start({ id, order }: ToStarter): Promise<void> {
  try {
    const child = spawnOrder(order, '');
    child.once('exit', (code, signal) => tell({ kind: 'ended', id, end: leaderEnd(code, signal) }));
    await once(child, 'spawn');
    tell({ kind: 'started', id, pid: child.pid ?? 0 });
  } catch (error) {
    tell({ kind: 'refused', id, reason: error instanceof Error ? error.message : String(error) });
  }
}

process.on('message', (message: ToStarter) => void start(message));
process.once('disconnect', () => process.exit());
// Whoever means the manager with these, as a terminal does, sends them to its whole group.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

setPriority(Math.min(getPriority() + LESS_URGENT, LEAST_URGENT));
tell({ kind: 'ready' });
