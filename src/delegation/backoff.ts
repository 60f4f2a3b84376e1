import { backOff } from '../lib/retry.ts';
import type { Random } from './policies/index.ts';

/** Shorter: somebody who was just restarted is hammered. Longer: a job waits although it could run. */
const FIRST = 1_000;

/** Longer: who is back is noticed late. */
const LONGEST = 60_000;

/** How long to wait after so many tries in a row, of either side. */
export const delegationBackoff = (tries: number, chance: Random): number =>
  backOff(Math.max(1, tries), { first: FIRST, longest: LONGEST }, chance());
