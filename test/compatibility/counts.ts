import { type Difference, explanationsOf, type Kind } from './differences/difference.ts';
import type { Exchange } from './exchanges.ts';

/** How many exchanges are answered as recorded, and how many are not, by kind of the reason. */
export type Counts = Readonly<Record<Kind | 'identical', number>>;

/** The counts by the table of differences; the test proves the table. */
export function countsOf(exchanges: readonly Exchange[], differences: readonly Difference[]): Counts {
  const explanations = explanationsOf(differences, exchanges);
  const of = (kind: Kind) => explanations.filter(({ difference }) => difference.kind === kind).length;
  return {
    identical: exchanges.length - explanations.length,
    defect: of('defect'),
    decision: of('decision'),
    later: of('later'),
  };
}
