import type { Chance } from '../policy/index.ts';

/** Shorter: somebody who was just restarted is hammered. Longer: a job waits although it could run. */
const FIRST = 1_000;

/** Longer: who is back is noticed late. */
const LONGEST = 60_000;

/** How long to wait after so many tries in a row, spread so that those who failed together do not come together. */
export function waitAfter(tries: number, chance: Chance): number {
  const full = Math.min(FIRST * 2 ** Math.max(0, tries - 1), LONGEST);
  return full / 2 + (full / 2) * chance();
}
