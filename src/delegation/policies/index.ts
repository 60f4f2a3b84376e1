export { toDecisionRecord } from './decision.ts';
export { STALE } from './free-capacity.ts';
export type { Candidate, MemberId, Random, Ranking } from './policy.ts';
export { isNeverUsed, rank } from './rank.ts';
