import { freeCapacity } from './free-capacity.ts';
import type { Eligible, KnownCandidate, Random } from './policy.ts';
import { shuffle } from './random.ts';

/**
 * With this much free CPU or more a cluster counts as idle, and all idle clusters are equal: 0…32000 millicores score
 * 100…0.
 */
const IDLE_MILLICORES = 32_000;

/**
 * Ranks by the free CPU of all nodes together, without what was just sent there. The order of equal scores is random:
 * otherwise idle members would be filled one by one.
 */
export function orderByLoad(candidates: readonly KnownCandidate[], random: Random): Eligible[] {
  return shuffle(candidates, random)
    .map((candidate) => ({ candidate, score: scoreOf(freeCapacity(candidate).cpu) }))
    .toSorted((a, b) => a.score - b.score);
}

const scoreOf = (millicores: number) => 100 - (Math.min(millicores, IDLE_MILLICORES) / IDLE_MILLICORES) * 100;
