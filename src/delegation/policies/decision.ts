import type { DecisionRecord } from '../../model/job/index.ts';
import { policyNamed } from '../../model/service/index.ts';
import { type Candidate, type MemberId, type Ranking } from './policy.ts';

/** Only the first candidates are kept, because records must stay small. */
const KEPT_CANDIDATES = 10;

/** A decision as the job's record keeps it: the best candidates, and always the chosen one. */
export function toDecisionRecord(
  policy: string | undefined,
  rankings: readonly Ranking[],
  chosen: MemberId | undefined,
  at: number,
): DecisionRecord {
  const place = rankings.findIndex(({ candidate }) => candidate.member === chosen);
  const kept =
    place < KEPT_CANDIDATES
      ? rankings.slice(0, KEPT_CANDIDATES)
      : [...rankings.slice(0, KEPT_CANDIDATES - 1), ...rankings.slice(place, place + 1)];
  return {
    at,
    policy: policyNamed(policy),
    ...(chosen !== undefined && { chosen }),
    candidates: kept.map(({ candidate, score, refusal }) => ({
      member: candidate.member,
      ...(score !== undefined && { score: Math.round(score * 100) / 100 }),
      ...(refusal !== undefined && { refusal }),
      ...ageOf(candidate),
    })),
  };
}

/** The figures of this cluster are current, so they have no age. */
function ageOf({ isSelf, snapshot }: Candidate): { readonly age?: number } {
  return isSelf || !snapshot ? {} : { age: Math.round(snapshot.age / 1000) };
}
