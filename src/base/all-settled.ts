/**
 * Like `Promise.all`, but it waits for every one before it fails: whoever cleans up afterwards must not be overtaken
 * by what is still under way.
 */
export async function allSettled<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const outcomes = await Promise.allSettled(promises);
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  });
}
