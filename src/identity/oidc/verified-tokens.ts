import type { IdentityError } from '../errors.ts';
import type { User } from '../principal.ts';

/** Who a verified token belongs to, or why its holder is not let in. */
export type Verdict = { readonly user: User } | { readonly refusal: IdentityError };

interface Entry {
  readonly verdict: Verdict;
  readonly until: number;
}

/**
 * Verdicts by the hash of their token, the least recently used forgotten first. None is told after its time: what was
 * true of a token says nothing about it once it has expired.
 */
export class VerifiedTokens {
  readonly #entries = new Map<string, Entry>();
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  find(hash: string, now: number): Verdict | undefined {
    const entry = this.#entries.get(hash);
    if (!entry) return undefined;
    this.#entries.delete(hash);
    if (now >= entry.until) return undefined;
    this.#entries.set(hash, entry);
    return entry.verdict;
  }

  keep(hash: string, verdict: Verdict, until: number): void {
    this.#entries.delete(hash);
    this.#entries.set(hash, { verdict, until });
    if (this.#entries.size <= this.#capacity) return;
    const [oldest] = this.#entries.keys();
    if (oldest !== undefined) this.#entries.delete(oldest);
  }
}
