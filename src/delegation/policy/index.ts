export { decisionOf } from './decision.ts';
export { STALE } from './known.ts';
export type { Candidate, Chance, Free, MemberId, Ranking, Refused, Snapshot, Taker, Weights } from './policy.ts';
export { type Choice, rank } from './rank.ts';
export { roomFor } from './room.ts';
