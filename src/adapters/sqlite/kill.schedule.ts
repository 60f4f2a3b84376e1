/** What `kill.test.ts` and `kill.child.ts` agree on: the n-th write of each writer, and the state after it. */

export const WRITERS = 4;

export const KINDS = ['service', 'secret', 'journal'] as const;
export type Kind = (typeof KINDS)[number];

/** The first write of a cycle creates the record, the last one removes it, those between change it. */
const CYCLE = 5;

export const isFirst = (n: number) => n % CYCLE === 0;
export const isLast = (n: number) => n % CYCLE === CYCLE - 1;
export const firstOf = (n: number) => n - (n % CYCLE);

/** The state after the n-th write: its number, or undefined if the record does not exist. */
export const stateAfter = (n: number) => (n < 0 || isLast(n) ? undefined : n);
