import { setTimeout as pause } from 'node:timers/promises';

/** Timers take no longer ones. */
const LONGEST = 2 ** 31 - 1;

/** Resolves after that many milliseconds, be they a year; never, once the signal says so. */
export async function after(milliseconds: number, signal: AbortSignal): Promise<void> {
  try {
    for (let left = milliseconds; left > 0; left -= LONGEST) {
      await pause(Math.min(left, LONGEST), undefined, { signal });
    }
  } catch {
    await new Promise<never>(() => undefined);
  }
}
