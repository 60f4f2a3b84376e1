import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import type { ToldLog } from './told-log.ts';

/**
 * How long what is printed may be known to one manager alone; the second for calls that print on and on. Longer: who asks
 * another one sees it later. Shorter: a write to the store each time, of all there is.
 */
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 5_000;

/**
 * Keeps what a call has printed so far where every manager of the cluster can read it, until the signal. A call that is
 * over sooner than that costs nothing.
 */
export async function spool(
  log: ToldLog,
  keep: (bytes: Uint8Array) => Promise<void>,
  over: AbortSignal,
  report: (problem: unknown) => void,
): Promise<void> {
  const ended = over.aborted ? Promise.resolve() : once(over, 'abort');
  let kept = 0;
  for (let wait = FIRST_WAIT_MS; !over.aborted; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
    const { news } = log;
    if (log.size === kept) await Promise.race([news, ended]);
    await pause(wait, undefined, { signal: over }).catch(() => undefined);
    if (over.aborted || log.size === kept) continue;
    const { bytes } = log;
    try {
      await keep(bytes);
      kept = bytes.length;
    } catch (problem) {
      report(problem);
    }
  }
}
