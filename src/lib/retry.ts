/** Milliseconds: the first wait, and the longest. */
export interface BackOff {
  readonly first: number;
  readonly longest: number;
}

/**
 * How long to wait after so many failures in a row: twice as long each time, and spread by `chance`, which is in [0, 1), so
 * that those who failed together do not come back together.
 */
export function backOff(failures: number, { first, longest }: BackOff, chance: number): number {
  if (failures <= 0) return 0;
  const full = Math.min(first * 2 ** (failures - 1), longest);
  return full / 2 + (full / 2) * chance;
}
