import { SKEW } from './signature.ts';

/** A request is good from {@link SKEW} before its time to as long after it: whoever is remembered that long comes once. */
const REMEMBERED = 2 * SKEW;

/** Far more than a peer asks for in that time; at some 100 bytes each it is half a megabyte for the busiest. */
const MOST_PER_KEY = 5_000;

/**
 * Which signed requests have been here before. Only for requests whose signature held, so that nobody fills it with the
 * nonces of others; and only where a second time would do harm.
 */
export class Nonces {
  readonly #seen = new Map<string, Map<string, number>>();
  readonly #most: number;

  constructor(most = MOST_PER_KEY) {
    this.#most = most;
  }

  /** Is this the first time? Who has sent too many is told no: forgetting one of them would let it in again. */
  isFirst(keyId: string, nonce: string, now: number): boolean {
    this.#forget(now);
    const seen = this.#seen.get(keyId) ?? new Map<string, number>();
    if (seen.has(nonce) || seen.size >= this.#most) return false;
    this.#seen.set(keyId, seen.set(nonce, now + REMEMBERED));
    return true;
  }

  /** Those that came first go first, in each key; a clock that was set back only keeps some for longer. */
  #forget(now: number): void {
    for (const [keyId, seen] of this.#seen) {
      for (const [nonce, until] of seen) {
        if (now < until) break;
        seen.delete(nonce);
      }
      if (seen.size === 0) this.#seen.delete(keyId);
    }
  }
}
