/** How many of something are left. The number may only fall. */
export interface Ratchet {
  /** What is counted, in the plural. */
  readonly what: string;
  readonly count: number;
}

/**
 * What is not yet as we want it. `npm run lint` fails when there are more than this, and also when there are fewer: then
 * lower the number here, so that they do not come back. The goal of each is 0.
 */
export const RATCHETS = {
  duplicateNames: { what: 'exported names that more than one file of src declares', count: 0 },
  duplicateFileNames: {
    what: 'file names that occur more than once below the same top folder of src (index, errors and types are exempt)',
    count: 0,
  },
} as const satisfies Record<string, Ratchet>;

/** What is wrong when these were found, as text for people; undefined when their number is the one of the ratchet. */
export function ratchetProblem({ what, count }: Ratchet, found: readonly string[]): string | undefined {
  if (found.length === count) return undefined;
  if (found.length < count) {
    return `${found.length} ${what}, fewer than before: lower the number in tools/ratchets.ts from ${count} to ${found.length}`;
  }
  return `${found.length} ${what}, ${count} are allowed:\n${found.map((each) => `  ${each}\n`).join('')}`;
}
