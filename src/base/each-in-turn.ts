/**
 * Does the work for one after the other. One that fails keeps no other from its turn; the first problem is thrown in the end.
 * Resolves to how many were done: those for which the work did not say `false`.
 */
export async function eachInTurn<T>(
  items: Iterable<T> | AsyncIterable<T>,
  work: (item: T) => Promise<unknown>,
): Promise<number> {
  const problems: unknown[] = [];
  let done = 0;
  for await (const item of items) {
    try {
      if ((await work(item)) !== false) done++;
    } catch (problem) {
      problems.push(problem);
    }
  }
  if (problems.length > 0) throw problems[0];
  return done;
}
