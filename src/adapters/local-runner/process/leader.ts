import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { type SignalOrder, type StartOrder, spawnOrder } from './spawn-wrapper.ts';

/** The wrapper of a script: the leader of its session, and of its process group. */
export interface Leader {
  readonly pid: number;
  /** Undefined: whoever would have told is gone. */
  readonly end: Promise<LeaderEnd | undefined>;
  /** Is it still to be told how it ended? As long its process id, and so its group, is its own. */
  readonly told: boolean;
  /** Nobody waits for its end any more. */
  letGo(): void;
}

export interface LeaderEnd {
  readonly exitCode?: number;
  readonly signal?: string;
}

const NICE = ['/usr/bin/nice', '/bin/nice'].find((path) => existsSync(path)) ?? '';

/** Starts a script, or sends a signal, as a child of this process. */
export async function startHere(order: StartOrder | SignalOrder): Promise<Leader> {
  const child = spawnOrder(order, NICE);
  const { promise: end, resolve } = Promise.withResolvers<LeaderEnd>();
  child.once('exit', (code, signal) => resolve(leaderEnd(code, signal)));
  await once(child, 'spawn');
  return {
    pid: child.pid ?? 0,
    end,
    get told() {
      return child.exitCode === null && child.signalCode === null;
    },
    letGo: () => child.unref(),
  };
}

export const leaderEnd = (code: number | null, signal: string | null): LeaderEnd => ({
  ...(code !== null && { exitCode: code }),
  ...(signal !== null && { signal }),
});
