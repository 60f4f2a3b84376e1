/** Wait after the first failure: a burst of requests makes one attempt, and people hardly notice. */
const FIRST_WAIT = 1_000;

/** Longest wait. Longer: an issuer that is back is noticed late. Shorter: one that hangs is waited for more often. */
const LONGEST_WAIT = 30_000;

export interface CoolDownOptions {
  readonly now: () => number;
  /** Told of each failure that starts a wait, not of the calls that fail because of it. */
  readonly failed?: (reason: unknown, wait: number) => void;
}

/**
 * Makes a failing call fail at once for a while, twice as long after each further failure: what is down is asked
 * rarely and nobody waits for it. There is no timer, the first call after the wait is the next attempt.
 */
export function withCoolDown<Args extends unknown[], T>(
  attempt: (...args: Args) => Promise<T>,
  { now, failed }: CoolDownOptions,
): (...args: Args) => Promise<T> {
  let failures = 0;
  let notBefore = -Infinity;
  let reason: unknown;

  return async (...args) => {
    if (now() < notBefore) throw reason;
    const round = failures;
    try {
      const result = await attempt(...args);
      failures = 0;
      return result;
    } catch (error) {
      // Attempts that were under way together are one failure, not many.
      if (failures === round) {
        const wait = Math.min(FIRST_WAIT * 2 ** round, LONGEST_WAIT);
        [failures, notBefore, reason] = [round + 1, now() + wait, error];
        failed?.(error, wait);
      }
      throw error;
    }
  };
}
