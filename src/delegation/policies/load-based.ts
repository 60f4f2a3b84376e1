import { freeCapacity } from './free-capacity.ts';
import type { Eligible, KnownCandidate, Random } from './policy.ts';
import { shuffle } from './random.ts';

/** Free CPU that counts as idle: above it all are equal. Seed plan: 0…32000 millicores are 100…0. */
const IDLE_MILLICORES = 32_000;

/** By free CPU in total, without what was just sent. Chance decides among equals: else idle members would fill one by one. */
export function orderByLoad(candidates: readonly KnownCandidate[], chance: Random): Eligible[] {
  return shuffle(candidates, chance)
    .map((candidate) => ({ candidate, score: scoreOf(freeCapacity(candidate).cpu) }))
    .toSorted((a, b) => a.score - b.score);
}

const scoreOf = (millicores: number) => 100 - (Math.min(millicores, IDLE_MILLICORES) / IDLE_MILLICORES) * 100;
