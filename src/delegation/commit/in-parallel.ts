import { allSettled } from '../../base/all-settled.ts';

/** So many at once. After a failure none is begun, and whoever hears of it knows that none is under way. */
export async function inParallel<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = items.values();
  let failed = false;
  const worker = async () => {
    for (const item of waiting) {
      if (failed) return;
      try {
        await work(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await allSettled(Array.from({ length: Math.min(atOnce, items.length) }, worker));
}
