import { backOff } from '../../../base/back-off.ts';

/** A member that was just restarted is asked again soon; shorter would only hammer it. */
export const FIRST = 5_000;

/** A member that is away for days is seen again within this; longer would keep a healed federation waiting. */
const LONGEST = 15 * 60_000;

/** An interval, a tenth shorter to a tenth longer: managers that were started together do not stay together. */
export const spread = (interval: number, chance: number): number => interval * (0.9 + 0.2 * chance);

/** How long to wait after so many failures in a row; `chance` is in [0, 1), and spreads those who failed together. */
export const waitAfter = (failures: number, chance: number): number =>
  backOff(failures, { first: FIRST, longest: LONGEST }, chance);
