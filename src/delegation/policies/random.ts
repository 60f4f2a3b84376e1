import type { Candidate, Eligible, Random, Weights } from './policy.ts';

/**
 * As if one candidate after the other were drawn, so that the second is random as well. The score is the position. Without
 * weights all are equal; with weights, a candidate without one counts as 1, and one with 0 is drawn only when no other is left.
 * Sorting by `-ln(random) / weight` gives this order without a new draw for each position (Efraimidis and Spirakis, 2006).
 */
export function orderRandomly(candidates: readonly Candidate[], weights: Weights, random: Random): Eligible[] {
  const drawn = candidates.map((candidate) => ({ candidate, weight: weightOf(candidate, weights), luck: random() }));
  return drawn
    .map(({ candidate, weight, luck }) => ({ candidate, weight, time: arrival(luck, weight) }))
    .toSorted((a, b) => Number(a.weight === 0) - Number(b.weight === 0) || a.time - b.time)
    .map(({ candidate }, score) => ({ candidate, score }));
}

/** The logarithm of the time at which the first event of a Poisson process with this rate happens; of rate 1 for weight 0. */
const arrival = (luck: number, weight: number) => Math.log(-Math.log1p(-luck)) - (weight > 0 ? Math.log(weight) : 0);

/** A copy in random order; all orders are equally likely. */
export function shuffle<T>(list: readonly T[], random: Random): T[] {
  const shuffled = [...list];
  for (let last = shuffled.length - 1; last > 0; last--) {
    const drawn = Math.floor(random() * (last + 1));
    [shuffled[last], shuffled[drawn]] = [shuffled[drawn] as T, shuffled[last] as T];
  }
  return shuffled;
}

/** An invalid weight counts as 0. */
function weightOf({ weight, type, member }: Candidate, weights: Weights): number {
  const [cluster = ''] = member.split('/');
  const named = type === 'oscar' && Object.hasOwn(weights, cluster) ? weights[cluster] : undefined;
  const given = weight ?? named ?? 1;
  return given > 0 ? Math.min(given, Number.MAX_VALUE) : 0;
}
