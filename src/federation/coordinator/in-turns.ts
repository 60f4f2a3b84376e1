import { allSettled } from '../../base/all-settled.ts';

/** Works on all items, so many at once: whoever is slow keeps one turn busy, not the others. */
export async function inTurns<T>(
  items: AsyncIterable<T> | Iterable<T>,
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = one(items);
  const turns = Array.from({ length: atOnce }, async () => {
    for await (const item of { [Symbol.asyncIterator]: () => ({ next: () => left.next() }) }) await work(item);
  });
  await allSettled(turns);
}

async function* one<T>(items: AsyncIterable<T> | Iterable<T>): AsyncGenerator<T, undefined> {
  yield* items;
}
