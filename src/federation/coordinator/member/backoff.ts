import { backOff } from '../../../base/back-off.ts';

/** A member that was just restarted is asked again soon; shorter would only hammer it. */
const FIRST = 5_000;

/** A member that is away for days is seen again within this; longer would keep a healed federation waiting. */
const LONGEST = 15 * 60_000;

/** How long to wait after so many failures in a row; `chance` is in [0, 1), and spreads those who failed together. */
export const waitAfter = (failures: number, chance: number): number =>
  backOff(failures, { first: FIRST, longest: LONGEST }, chance);
