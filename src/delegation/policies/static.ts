import type { Candidate, Eligible } from './policy.ts';

/**
 * Ranks by priority, 0 first. Among equal priorities the origin's own cluster is first, then the order of the members
 * counts.
 */
export function orderByPriority(candidates: readonly Candidate[]): Eligible[] {
  return candidates
    .toSorted((a, b) => a.priority - b.priority || Number(b.isSelf) - Number(a.isSelf))
    .map((candidate) => ({ candidate, score: candidate.priority }));
}
