/** Each new value counts this much. More: one odd job decides. Less: what has changed is noticed late. */
const NEWEST_COUNTS = 0.2;

/** The mean of values, of which the newest count most. */
export class RecentMean {
  #value: number | undefined;

  /** Undefined when there was none yet. */
  get value(): number | undefined {
    return this.#value;
  }

  add(newest: number): void {
    const before = this.#value ?? newest;
    this.#value = before + (newest - before) * NEWEST_COUNTS;
  }
}
