import { backoffDelay } from '../lib/retry.ts';
import type { Random } from './policies/index.ts';

/** A smaller value floods a manager that was just restarted; a larger one delays a job that could run. */
const FIRST = 1_000;

/** A larger value notices late that a manager is back; a smaller one sends more requests in vain. */
const LONGEST = 60_000;

/** The pause after so many failed tries in a row, for origins and targets. */
export const delegationBackoff = (tries: number, random: Random): number =>
  backoffDelay(Math.max(1, tries), { first: FIRST, longest: LONGEST }, random());
