/** Further away than this, a suggestion would be a guess. */
const FARTHEST = 3;

/** Names are shorter. To compare two texts takes as long as the product of their lengths. */
const LONGEST = 100;

const plain = (name: string) => name.toUpperCase().replaceAll('-', '_');

/** `, did you mean x?` when one of the names is near what was written, otherwise nothing. */
export function closest(written: string, names: readonly string[]): string {
  const ranked = names
    .filter((name) => name.length <= LONGEST && Math.abs(name.length - written.length) <= FARTHEST)
    .map((name) => ({ name, distance: editDistance(plain(written), plain(name)) }))
    .filter(({ name, distance }) => distance <= Math.min(FARTHEST, name.length / 2))
    .toSorted((a, b) => a.distance - b.distance);
  return ranked[0] ? `, did you mean ${ranked[0].name}?` : '';
}

/** Letters to insert, drop or replace (Levenshtein). */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}
