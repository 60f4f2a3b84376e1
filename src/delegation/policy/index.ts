export { decisionOf } from './decision.ts';
export type { Candidate, Chance, Free, MemberId, Ranking, Snapshot } from './policy.ts';
export { rank } from './rank.ts';
