/** What the two sides of the kill test agree on: the n-th write of each loop, and what it leaves. */

export const WRITERS = 4;

export const KINDS = ['service', 'secret', 'journal'] as const;
export type Kind = (typeof KINDS)[number];

/** The first write of a cycle makes the record, the last removes it, those between change it. */
const CYCLE = 5;

export const isFirst = (n: number) => n % CYCLE === 0;
export const isLast = (n: number) => n % CYCLE === CYCLE - 1;
export const firstOf = (n: number) => n - (n % CYCLE);

/** What is there after the n-th write: its number, or nothing. */
export const stateAfter = (n: number) => (n < 0 || isLast(n) ? undefined : n);
