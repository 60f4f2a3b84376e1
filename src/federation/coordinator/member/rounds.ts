import type { Result } from '../results.ts';
import { FIRST, waitAfter } from './backoff.ts';

/** Whose turn it is: members that failed wait longer each time. Known by their keys, in memory alone. */
export class Rounds {
  readonly #waiting = new Map<string, { failures: number; since: number; until: number }>();
  readonly #chance: () => number;

  constructor(chance: () => number = Math.random) {
    this.#chance = chance;
  }

  isDue(keyId: string, now: number): boolean {
    return (this.#waiting.get(keyId)?.until ?? 0) <= now;
  }

  /**
   * There is a sign of life of a member. True when it waits and is worth asking now; if it failed only just now it has its
   * turn soon, so that one that fails and says a lot is not asked all the time.
   */
  isBack(keyId: string, now: number): boolean {
    const waiting = this.#waiting.get(keyId);
    if (!waiting) return false;
    const soon = waiting.since + FIRST;
    if (soon <= now) return true;
    this.#waiting.set(keyId, { failures: 0, since: waiting.since, until: Math.min(soon, waiting.until) });
    return false;
  }

  /** It has its turn, as if it had never failed. */
  forget(keyId: string): void {
    this.#waiting.delete(keyId);
  }

  note(results: readonly Result[], now: number): void {
    for (const { keyId, kind } of results) {
      if (kind === 'made' || kind === 'ended' || kind === 'left') this.#waiting.delete(keyId);
      else {
        const failures = (this.#waiting.get(keyId)?.failures ?? 0) + 1;
        this.#waiting.set(keyId, { failures, since: now, until: now + waitAfter(failures, this.#chance()) });
      }
    }
  }
}
