/** Lets so many do something at once; the others wait their turn, first come, first served. */
export class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#free = count;
  }

  async use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await this.#turn();
    try {
      return await work();
    } finally {
      // Handed on rather than given back, so that nobody who comes now is faster than who waits.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }

  #turn(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    return promise;
  }
}

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

/**
 * Does the work for one after the other. One that fails keeps no other from its turn; the first problem is thrown in the end.
 * Resolves to how many were done: those for which the work did not say `false`.
 */
export async function forEachSettled<T>(
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

/** Work that many may want at once, of which each needs a run that began after they asked: those who wait share the next one. */
export class Shared {
  readonly #work: () => Promise<void>;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  run(): Promise<void> {
    if (!this.#running) return this.#begin();
    this.#next ??= this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined;
        return this.#begin();
      });
    return this.#next;
  }

  #begin(): Promise<void> {
    const running = this.#work().finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }
}
