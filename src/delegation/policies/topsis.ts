import { freeCapacity } from './free-capacity.ts';
import type { Eligible, KnownCandidate, Random } from './policy.ts';
import { shuffle } from './random.ts';

interface Criterion {
  readonly weight: number;
  readonly better: 'more' | 'less';
  /** One value per candidate, in their order. */
  readonly values: (candidates: readonly KnownCandidate[]) => readonly number[];
}

/** The duration in seconds if no job has ended yet. */
const NO_DURATION = 1e6;

/**
 * The weights of the Go manager (docs/go-manager.md#federation-and-delegation). Only the proportions of values count,
 * not their units.
 */
const CRITERIA: readonly Criterion[] = [
  { weight: 1, better: 'less', values: (all) => orMost(all.map(({ snapshot }) => snapshot.roundTrip)) },
  { weight: 8, better: 'more', values: (all) => all.map(({ snapshot }) => snapshot.nodeCount) },
  { weight: 18, better: 'more', values: (all) => all.map((each) => freeCapacity(each).memory) },
  { weight: 65, better: 'more', values: (all) => all.map((each) => freeCapacity(each).cpu) },
  { weight: 2, better: 'less', values: (all) => all.map(({ snapshot }) => snapshot.meanDuration ?? NO_DURATION) },
  {
    weight: 6,
    better: 'less',
    values: (all) => orMost(all.map(({ snapshot }) => snapshot.pending)).map((jobs) => jobs + 0.1),
  },
];

/**
 * The order of candidates this close to the best is random: otherwise all origins would send all their jobs to the same
 * member.
 */
const AS_GOOD_AS_THE_BEST = 0.8;

/**
 * TOPSIS: measures how far each candidate is from the best and from the worst value in six criteria. The score is 0 for
 * the best in every criterion and 100 for the worst. Candidates within 20 % of the best come first, in random order.
 */
export function orderByTopsis(candidates: readonly KnownCandidate[], random: Random): Eligible[] {
  const closeness = closenessOf(candidates);
  const rated = candidates.map((candidate, index) => ({ candidate, closeness: closeness[index] ?? 0 }));
  const best = Math.max(...closeness);
  const [good, others] = [true, false].map((wanted) =>
    rated.filter((each) => each.closeness >= best * AS_GOOD_AS_THE_BEST === wanted),
  );
  return [...shuffle(good ?? [], random), ...(others ?? []).toSorted((a, b) => b.closeness - a.closeness)].map(
    (each) => ({ candidate: each.candidate, score: 100 - 100 * each.closeness }),
  );
}

/** From 0, the worst in every criterion, to 1, the best. If there is no difference, all are the best. */
function closenessOf(candidates: readonly KnownCandidate[]): number[] {
  const columns = CRITERIA.map(({ weight, better, values }) => {
    const column = normalised(values(candidates)).map((value) => value * weight);
    const [least, most] = [Math.min(...column), Math.max(...column)];
    return better === 'more' ? { column, best: most, worst: least } : { column, best: least, worst: most };
  });
  return candidates.map((_, index) => {
    const toBest = Math.hypot(...columns.map(({ column, best }) => (column[index] ?? 0) - best));
    const toWorst = Math.hypot(...columns.map(({ column, worst }) => (column[index] ?? 0) - worst));
    return toBest + toWorst === 0 ? 1 : toWorst / (toBest + toWorst);
  });
}

/** Scales to a vector of length 1; a vector of zeros stays as it is. */
function normalised(values: readonly number[]): number[] {
  const length = Math.hypot(...values);
  return values.map((value) => (length === 0 ? 0 : value / length));
}

/** A missing value counts as the worst of the others: silence is no advantage. */
function orMost(values: readonly (number | undefined)[]): number[] {
  const most = Math.max(0, ...values.filter((value) => value !== undefined));
  return values.map((value) => value ?? most);
}
