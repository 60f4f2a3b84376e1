export { toDecisionRecord } from './decision.ts';
export type { Candidate, MemberId, Random, Ranking } from './policy.ts';
export { rank } from './rank.ts';
export { STALE } from './room.ts';
