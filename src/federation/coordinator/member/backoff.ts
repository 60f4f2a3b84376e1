/** A member that was just restarted is asked again soon; shorter would only hammer it. */
const FIRST = 5_000;

/** A member that is away for days is seen again within this; longer would keep a healed federation waiting. */
const LONGEST = 15 * 60_000;

/** How long to wait after so many failures in a row; `chance` is in [0, 1), and spreads those who failed together. */
export function waitAfter(failures: number, chance: number): number {
  if (failures <= 0) return 0;
  const full = Math.min(FIRST * 2 ** (failures - 1), LONGEST);
  return full / 2 + (full / 2) * chance;
}
