/** The first wait after a failure. Shorter: a server that restarts is asked more often. Longer: recovery is later. */
const FIRST = 50;

/** Longest wait. A server that is away for long is asked twice a minute by each who waits. */
const LONGEST = 30_000;

/** How long to wait before the n-th repetition (from 0): doubling, with jitter so that many do not come back at once. */
export function backoff(repetition: number, random: () => number, longest = LONGEST): number {
  const most = Math.min(longest, FIRST * 2 ** Math.min(repetition, 20));
  return most / 2 + (most / 2) * random();
}
