export interface ChangedLine {
  readonly kind: 'added' | 'removed';
  readonly line: string;
  /** Its number in its own text, from 1. */
  readonly number: number;
}

/** Beyond this, a comparison of all lines with all lines takes too long for every key press. */
const MOST_LINES = 2_000;

/** The lines that differ, by the longest common subsequence. Lines that begin or end both texts are skipped first. */
export function diffLines(before: string, after: string): ChangedLine[] {
  const [old, now] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end++;
  const [left, right] = [old.slice(start, old.length - end), now.slice(start, now.length - end)];
  const keep = left.length * right.length > MOST_LINES ** 2 ? [] : commonLines(left, right);
  const [keptLeft, keptRight] = [new Set(keep.map(([one]) => one)), new Set(keep.map(([, other]) => other))];
  return [...changed(left, keptLeft, 'removed', start), ...changed(right, keptRight, 'added', start)].toSorted(
    (a, b) => a.number - b.number || (a.kind === b.kind ? 0 : a.kind === 'removed' ? -1 : 1),
  );
}

const changed = (lines: readonly string[], kept: ReadonlySet<number>, kind: ChangedLine['kind'], start: number) =>
  lines.flatMap((line, index): ChangedLine[] => (kept.has(index) ? [] : [{ kind, line, number: start + index + 1 }]));

/** Pairs of indexes of a longest common subsequence. */
function commonLines(left: readonly string[], right: readonly string[]): [number, number][] {
  const width = right.length + 1;
  const lengths = new Uint32Array((left.length + 1) * width);
  const at = (i: number, j: number) => lengths[i * width + j] ?? 0;
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      lengths[i * width + j] = left[i] === right[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const pairs: [number, number][] = [];
  let [i, j] = [0, 0];
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) pairs.push([i++, j++]);
    else if (at(i + 1, j) >= at(i, j + 1)) i++;
    else j++;
  }
  return pairs;
}
