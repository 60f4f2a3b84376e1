/** Lines around a change that are shown with it. */
const CONTEXT = 3;

type Edit = readonly [sign: ' ' | '-' | '+', line: string];

/** The lines that differ between two texts, marked - and +, with some around them; nothing if they are the same. */
export function lineDiff(before: string, after: string): string[] {
  const edits = editsOf(before.split('\n'), after.split('\n'));
  const near = edits.map((_, index) =>
    edits.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(([sign]) => sign !== ' '),
  );
  return edits.flatMap(([sign, line], index) => {
    if (near[index]) return [`${sign} ${line}`];
    return near[index - 1] ? ['  …'] : [];
  });
}

/** By the longest common subsequence; definitions are hundreds of lines at most. */
function editsOf(before: readonly string[], after: readonly string[]): Edit[] {
  const common = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1));
  const at = (row: number, column: number) => common[row]?.[column] ?? 0;
  for (let row = before.length - 1; row >= 0; row--) {
    for (let column = after.length - 1; column >= 0; column--) {
      const length =
        before[row] === after[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
      common[row]?.fill(length, column, column + 1);
    }
  }
  const edits: Edit[] = [];
  let [row, column] = [0, 0];
  while (row < before.length || column < after.length) {
    const [old, fresh] = [before[row], after[column]];
    if (old !== undefined && old === fresh) {
      edits.push([' ', old]);
      row++;
      column++;
    } else if (old !== undefined && (fresh === undefined || at(row + 1, column) >= at(row, column + 1))) {
      edits.push(['-', old]);
      row++;
    } else if (fresh !== undefined) {
      edits.push(['+', fresh]);
      column++;
    }
  }
  return edits;
}
