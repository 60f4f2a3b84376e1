import { setTimeout as pause } from 'node:timers/promises';

/**
 * Milliseconds. Long enough for a store behind a slow network and for processes that start on a busy machine. A larger value
 * delays only tests that fail.
 */
const DEADLINE = 60_000;

/** Repeats the check until it passes. At the deadline it throws the last error of the check. */
export async function eventually<T>(check: () => T | Promise<T>, deadline = DEADLINE, every = 2): Promise<T> {
  const end = performance.now() + deadline;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > end) throw error;
    }
    await pause(every);
  }
}
