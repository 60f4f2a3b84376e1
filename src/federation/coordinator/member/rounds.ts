import type { Result } from '../results.ts';
import { waitAfter } from './backoff.ts';

/** Whose turn it is: members that failed wait longer each time. Known by their keys, in memory alone. */
export class Rounds {
  readonly #waiting = new Map<string, { failures: number; until: number }>();
  readonly #chance: () => number;

  constructor(chance: () => number = Math.random) {
    this.#chance = chance;
  }

  isDue(keyId: string, now: number): boolean {
    return (this.#waiting.get(keyId)?.until ?? 0) <= now;
  }

  note(results: readonly Result[], now: number): void {
    for (const { keyId, kind } of results) {
      if (kind === 'made' || kind === 'ended' || kind === 'left') this.#waiting.delete(keyId);
      else {
        const failures = (this.#waiting.get(keyId)?.failures ?? 0) + 1;
        this.#waiting.set(keyId, { failures, until: now + waitAfter(failures, this.#chance()) });
      }
    }
  }
}
