/** When an object was written: for people and HTTP in milliseconds, and in nanoseconds as its event carries it. */
export interface Modification {
  readonly modified: number;
  /** Sixteen hex digits in capitals, as MinIO has it; unlike any other of this object. */
  readonly sequencer: string;
}

const NANOSECONDS = 1_000_000n;

/** Gives each modification a time of its own: those of one millisecond are numbered in its nanoseconds. */
export class ModificationClock {
  readonly #now: () => number;
  #last = 0;
  #count = 0n;

  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * `before` is when the object was written that this one replaces. A rewrite gets another millisecond, since jobs are
   * told apart by it (docs/jobs.md#no-event-is-lost-none-runs-twice) and even the same bytes written again are a new
   * event.
   */
  next(before?: number): Modification {
    const now = Math.floor(this.#now());
    const modified = now === before ? now + 1 : now;
    this.#count = modified === this.#last ? this.#count + 1n : 0n;
    this.#last = modified;
    const nanoseconds = BigInt(modified) * NANOSECONDS + (this.#count % NANOSECONDS);
    return { modified, sequencer: nanoseconds.toString(16).toUpperCase().padStart(16, '0') };
  }
}
