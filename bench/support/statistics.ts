export function median(values: readonly number[]): number {
  return percentile(values, 50);
}

/** By the nearest rank, as a sorted list shows it: no value that was not measured. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const rank = Math.max(1, Math.ceil((percent / 100) * sorted.length));
  const value = sorted[rank - 1];
  if (value === undefined) throw new Error('nothing was measured');
  return value;
}
