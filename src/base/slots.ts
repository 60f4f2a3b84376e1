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
