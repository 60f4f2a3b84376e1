import { setTimeout as pause } from 'node:timers/promises';

/** Does it now and then every so often, until the signal aborts. Of failures in a row the first is reported. */
export async function repeat(
  work: () => Promise<void>,
  everyMs: number,
  signal: AbortSignal,
  report: (problem: unknown) => void,
): Promise<void> {
  let failing = false;
  while (!signal.aborted) {
    try {
      await work();
      failing = false;
    } catch (error) {
      if (!failing && !signal.aborted) report(error);
      failing = true;
    }
    await pause(everyMs, undefined, { signal }).catch(() => undefined);
  }
}
