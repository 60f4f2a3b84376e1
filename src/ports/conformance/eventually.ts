import { setTimeout as pause } from 'node:timers/promises';

/**
 * For a store behind a network that is slow today, and for processes that start on a machine that has much else to do. A
 * failing test takes this long, a passing one does not.
 */
const DEADLINE = 60_000;

/** Tries until the check passes. At the deadline it fails with what the check said last. */
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
