import type { AccessToken } from './authorization-server.ts';
import { ExchangeError, type ExchangeErrorCode } from './errors.ts';

/**
 * How long before its end a token is not handed out any more. Shorter: it ends on its way, or while the other side works.
 * Longer: issuers whose tokens live for minutes are asked more often.
 */
const MARGIN_MS = 30_000;

/**
 * How long a failure holds, for those who ask again and again. Of each grant by itself: what an issuer says to a token that
 * somebody made up must not keep others waiting.
 */
const FAILURE_MS: Readonly<Partial<Record<string, number>>> = {
  'exchange-refused': 30_000,
  'issuer-unavailable': 2_000,
} satisfies Partial<Record<ExchangeErrorCode, number>>;

type Kept = ({ readonly access: AccessToken } | { readonly failure: ExchangeError }) & { readonly until: number };

/** Access tokens until shortly before their end. Those who ask for one that is not there share one attempt to get it. */
export class TokenCache {
  readonly #now: () => number;
  readonly #kept = new Map<string, Kept>();
  readonly #underWay = new Map<string, Promise<AccessToken>>();

  constructor(now: () => number) {
    this.#now = now;
  }

  async get(key: string, make: () => Promise<AccessToken>): Promise<AccessToken> {
    const kept = this.#kept.get(key);
    if (kept && this.#now() < kept.until) {
      if ('access' in kept) return kept.access;
      throw kept.failure;
    }
    const making = this.#underWay.get(key) ?? this.#make(key, make).finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, making);
    return making;
  }

  async #make(key: string, make: () => Promise<AccessToken>): Promise<AccessToken> {
    try {
      const access = await make();
      this.#keep(key, { access, until: (access.expiresAt ?? -Infinity) - MARGIN_MS });
      return access;
    } catch (error) {
      if (error instanceof ExchangeError) {
        this.#keep(key, { failure: error, until: this.#now() + (FAILURE_MS[error.code] ?? 0) });
      }
      throw error;
    }
  }

  #keep(key: string, kept: Kept): void {
    const now = this.#now();
    for (const [old, { until }] of this.#kept) if (until <= now) this.#kept.delete(old);
    if (kept.until > now) this.#kept.set(key, kept);
  }
}
