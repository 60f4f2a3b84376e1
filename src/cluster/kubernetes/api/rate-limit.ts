import { setTimeout as pause } from 'node:timers/promises';

export interface RateLimit {
  /** Requests per second in the long run. */
  readonly perSecond: number;
  /** Requests that may be sent at once after a silence. */
  readonly burst: number;
}

/**
 * Spares the API server. It is an explicit setting, since a default that nobody sees is a limit that nobody finds: the
 * 5 per second of the Go client are why the Go manager starts 2.6 jobs in a second.
 */
export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #now: () => number;
  /** When the bucket would have been full. Only this is kept: the rest follows from it. */
  #fullAt = 0;
  #waited = 0;

  constructor(limit: RateLimit, now: () => number = () => performance.now()) {
    this.#limit = limit;
    this.#now = now;
  }

  /** Milliseconds that requests have waited here altogether. */
  get waitedMs(): number {
    return this.#waited;
  }

  async wait(signal?: AbortSignal): Promise<void> {
    const delay = this.reserve();
    if (delay <= 0) return;
    this.#waited += delay;
    await pause(delay, undefined, signal && { signal });
  }

  /** Takes a turn, and says in how many milliseconds it is. */
  reserve(): number {
    const { perSecond, burst } = this.#limit;
    const interval = 1_000 / perSecond;
    const now = this.#now();
    this.#fullAt = Math.max(this.#fullAt, now) + interval;
    return Math.max(0, this.#fullAt - now - burst * interval);
  }
}
