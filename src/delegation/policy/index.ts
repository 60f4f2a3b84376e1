export { decisionOf } from './decision.ts';
export { STALE } from './known.ts';
export type { Candidate, Chance, Free, MemberId, Ranking, Snapshot } from './policy.ts';
export { rank } from './rank.ts';
