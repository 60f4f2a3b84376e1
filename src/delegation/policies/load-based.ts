import type { Known, Random, Taker } from './policy.ts';
import { shuffled } from './random.ts';
import { freeIn } from './room.ts';

/** Free CPU that counts as idle: above it all are equal. Seed plan: 0…32000 millicores are 100…0. */
const IDLE_MILLICORES = 32_000;

/** By free CPU in total, without what was just sent. Chance decides among equals: else idle members would fill one by one. */
export function byLoad(candidates: readonly Known[], chance: Random): Taker[] {
  return shuffled(candidates, chance)
    .map((candidate) => ({ candidate, score: scoreOf(freeIn(candidate).cpu) }))
    .toSorted((a, b) => a.score - b.score);
}

const scoreOf = (millicores: number) => 100 - (Math.min(millicores, IDLE_MILLICORES) / IDLE_MILLICORES) * 100;
