/**
 * So many times in a row may somebody not answer. Fewer: one lost packet stops the work for a while. More: each of them
 * is waited for to its deadline.
 */
const FAILURES = 3;

/** The first pause; each further one is twice as long. */
const FIRST_PAUSE = 5_000;

/** Longer: a peer that is back is noticed late. Shorter: one that is gone for good is dialled more often. */
const LONGEST_PAUSE = 60_000;

/**
 * Says whether it is worth asking somebody who did not answer lately. After a pause one request may try; the others go on
 * when that one was answered. Whoever must not wait for this asks all the same, and tells how it went.
 */
export class Breaker {
  #failures = 0;
  #pauses = 0;
  #until = -Infinity;
  #trying = false;

  /** May somebody ask now? Whoever is told yes asks, and tells how it went. */
  mayAsk(now: number): boolean {
    if (this.#failures < FAILURES) return true;
    if (now < this.#until || this.#trying) return false;
    this.#trying = true;
    return true;
  }

  /** Did nobody answer when it was asked last? */
  get isSilent(): boolean {
    return this.#failures > 0;
  }

  /** There is a sign of life: one request may try before the pause is over. */
  hope(): void {
    this.#until = -Infinity;
  }

  answered(): void {
    this.#failures = 0;
    this.#pauses = 0;
    this.#trying = false;
  }

  silent(now: number): void {
    // Requests that were under way together are one reason to pause, not many.
    if (now < this.#until) return;
    this.#trying = false;
    this.#failures++;
    if (this.#failures < FAILURES) return;
    this.#until = now + Math.min(FIRST_PAUSE * 2 ** this.#pauses, LONGEST_PAUSE);
    this.#pauses++;
  }
}
