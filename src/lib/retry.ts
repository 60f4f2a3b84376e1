/** Milliseconds: the first wait, and the longest. */
export interface BackoffLimits {
  readonly first: number;
  readonly longest: number;
}

/**
 * Milliseconds to wait after this many failures in a row: exponential, with jitter between half and all of it, so that callers that
 * failed together do not retry together. `random` is in [0, 1); without it there is no jitter, for a caller that is alone.
 */
export function backoffDelay(failures: number, { first, longest }: BackoffLimits, random = 1): number {
  if (failures <= 0) return 0;
  const full = Math.min(first * 2 ** (failures - 1), longest);
  return full / 2 + (full / 2) * random;
}

/** Half to one and a half times this wait, so that callers that wait for the same thing do not all try at the same moment. */
export const jitter = (ms: number, random = Math.random()) => ms * (0.5 + random);
