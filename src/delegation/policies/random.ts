import type { Candidate, Eligible, Random, Weights } from './policy.ts';

/**
 * Draws one candidate after the other, so that the second is random as well. The score is the position. Without weights
 * all are equal; with weights, a candidate without one counts as 1, and one with 0 is drawn only when no other is left.
 */
export function orderRandomly(candidates: readonly Candidate[], weights: Weights, random: Random): Eligible[] {
  const weighed = candidates.map((candidate) => ({ candidate, weight: weightOf(candidate, weights) }));
  const most = Math.max(...weighed.map(({ weight }) => weight));
  // Relative to the largest weight, so that weights of any size can be added up.
  const left = weighed.map(({ candidate, weight }) => ({ candidate, share: most > 0 ? weight / most : 0 }));
  const drawn: Eligible[] = [];
  while (left.length > 0) {
    for (const { candidate } of left.splice(draw(left, random), 1)) drawn.push({ candidate, score: drawn.length });
  }
  return drawn;
}

/** A copy in random order; all orders are equally likely. */
export function shuffle<T>(list: readonly T[], random: Random): T[] {
  const left = [...list];
  return list.flatMap(() => left.splice(Math.floor(random() * left.length), 1));
}

/** An invalid weight counts as 0. */
function weightOf({ weight, type, member }: Candidate, weights: Weights): number {
  const [cluster = ''] = member.split('/');
  const named = type === 'oscar' && Object.hasOwn(weights, cluster) ? weights[cluster] : undefined;
  const given = weight ?? named ?? 1;
  return given > 0 ? Math.min(given, Number.MAX_VALUE) : 0;
}

/** The index of the drawn candidate. */
function draw(left: readonly { readonly share: number }[], random: Random): number {
  const total = left.reduce((sum, { share }) => sum + share, 0);
  const point = random();
  if (total === 0) return Math.floor(point * left.length);
  let rest = point * total;
  const index = left.findIndex(({ share }) => {
    rest -= share;
    return rest < 0;
  });
  // Sums of fractions are not exact: a point at the very end may be beyond all shares.
  return index === -1 ? left.findLastIndex(({ share }) => share > 0) : index;
}
