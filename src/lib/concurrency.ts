/** Limits how many tasks run at once. The others wait in order of arrival. */
export class Slots {
  readonly #limit: () => number;
  #busy = 0;
  /** Waiting tasks begin at the head. Shifting one at a time is slow for long queues, so the rest is cut off now and then. */
  #waiting: (() => void)[] = [];
  #head = 0;

  /** A limit that is a function is asked again when a task starts or ends. */
  constructor(limit: number | (() => number)) {
    this.#limit = typeof limit === 'number' ? () => limit : limit;
  }

  async use<T>(work: () => Promise<T>): Promise<T> {
    if (this.#busy < this.#limit() && this.#head === this.#waiting.length) this.#busy++;
    else await this.#wait();
    try {
      return await work();
    } finally {
      this.#busy--;
      this.#startWaiting();
    }
  }

  #wait(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    return promise;
  }

  /** A slot is counted as busy before its task continues, so that a task that arrives now cannot overtake it. */
  #startWaiting(): void {
    while (this.#head < this.#waiting.length && this.#busy < Math.max(1, this.#limit())) {
      this.#busy++;
      this.#waiting[this.#head++]?.();
    }
    if (this.#head > 1024 && this.#head * 2 > this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#head);
      this.#head = 0;
    }
  }
}

/** Runs the tasks of one key one after the other, in order of arrival. Tasks of different keys run at the same time. */
export class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const mine = before ? before.then(work, work) : work();
    this.#last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(key) === mine) this.#last.delete(key);
    }
  }
}

/**
 * Like `Promise.all`, but waits for all promises before it rejects. The caller's clean-up then cannot run while some of the work is
 * still going on.
 */
export async function allSettled<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  const outcomes = await Promise.allSettled(promises);
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  });
}

/**
 * Works on one item after the other. A failure does not stop the rest; the first error is thrown at the end. Resolves to the number
 * of items for which the work did not return `false`.
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

/**
 * Works on all items, `limit` at once. A slow item delays no other. A failure ends only the lane in which it happened, and is
 * thrown when all lanes have ended.
 */
export async function mapConcurrent<T>(
  items: AsyncIterable<T> | Iterable<T>,
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = iterate(items);
  const lanes = Array.from({ length: limit }, async () => {
    for await (const item of { [Symbol.asyncIterator]: () => ({ next: () => left.next() }) }) await work(item);
  });
  await allSettled(lanes);
}

async function* iterate<T>(items: AsyncIterable<T> | Iterable<T>): AsyncGenerator<T, undefined> {
  yield* items;
}

/** Work whose callers each need a run that began after their call. Callers during a run share the next one. */
export class SharedRun {
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
