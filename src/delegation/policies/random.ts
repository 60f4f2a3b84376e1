import type { Candidate, Eligible, Random, Weights } from './policy.ts';

/**
 * Draws one after the other, so that whoever is asked second was drawn as well. The score is the turn. All alike without
 * weights; with some, a candidate that has none counts as 1, and 0 is drawn only when nobody else is left.
 */
export function orderRandomly(candidates: readonly Candidate[], weights: Weights, chance: Random): Eligible[] {
  const weighed = candidates.map((candidate) => ({ candidate, weight: weightOf(candidate, weights) }));
  const most = Math.max(...weighed.map(({ weight }) => weight));
  // Shares of the largest: weights of any size can be added up.
  const left = weighed.map(({ candidate, weight }) => ({ candidate, share: most > 0 ? weight / most : 0 }));
  const drawn: Eligible[] = [];
  while (left.length > 0) {
    for (const { candidate } of left.splice(draw(left, chance), 1)) drawn.push({ candidate, score: drawn.length });
  }
  return drawn;
}

/** The same in another order; each order is as likely as any other. */
export function shuffle<T>(list: readonly T[], chance: Random): T[] {
  const left = [...list];
  return list.flatMap(() => left.splice(Math.floor(chance() * left.length), 1));
}

/** A weight that makes no sense is none at all: 0. */
function weightOf({ weight, type, member }: Candidate, weights: Weights): number {
  const [cluster = ''] = member.split('/');
  const named = type === 'oscar' && Object.hasOwn(weights, cluster) ? weights[cluster] : undefined;
  const given = weight ?? named ?? 1;
  return given > 0 ? Math.min(given, Number.MAX_VALUE) : 0;
}

/** The index of the one that is drawn. */
function draw(left: readonly { readonly share: number }[], chance: Random): number {
  const total = left.reduce((sum, { share }) => sum + share, 0);
  const point = chance();
  if (total === 0) return Math.floor(point * left.length);
  let rest = point * total;
  const index = left.findIndex(({ share }) => {
    rest -= share;
    return rest < 0;
  });
  // Sums of fractions are not exact: a point at the very end may lie beyond all of them.
  return index === -1 ? left.findLastIndex(({ share }) => share > 0) : index;
}
