import { AsyncLocalStorage } from 'node:async_hooks';

/** How old the date of a signed request may be: so S3 has it, and MinIO and other stores keep to it. */
const OLDEST_MS = 15 * 60_000;

const deadlines = new AsyncLocalStorage<number>();

/**
 * What the work changes is refused by the store once its own clock has passed this time, however long whoever sends
 * it stood still before: requests are dated so that they are too old by then. Work within such work ends no later than that.
 */
export function refusedAfter<T>(time: number, work: () => Promise<T>): Promise<T> {
  return deadlines.run(Math.min(time, deadlines.getStore() ?? time), work);
}

/** What a request that changes something is dated, if it is sent now. */
export function dateOf(now: number): number {
  const deadline = deadlines.getStore();
  return deadline === undefined ? now : Math.min(now, deadline - OLDEST_MS);
}
