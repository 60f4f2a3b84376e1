import { freeCapacity } from './free-capacity.ts';
import type { Eligible, KnownCandidate, Random } from './policy.ts';
import { shuffle } from './random.ts';

/**
 * Minimum completion time: ranks by the seconds until the job would have ended there. These are the transfer of its input,
 * the wait behind the jobs that are queued there, and the duration of recent jobs of its service there. The order of equal
 * estimates is random, so that origins with the same figures do not all choose the same member.
 */
export function orderByCompletionTime(candidates: readonly KnownCandidate[], random: Random): Eligible[] {
  const assumed = shortestDuration(candidates);
  return shuffle(candidates, random)
    .map((candidate) => ({ candidate, score: completionSeconds(candidate, assumed) }))
    .toSorted((a, b) => a.score - b.score);
}

function completionSeconds(candidate: KnownCandidate, assumed: number): number {
  const { transferSeconds = 0, snapshot } = candidate;
  const duration = durationAt(candidate) ?? assumed;
  const { pending = 0 } = snapshot;
  const wait = (pending * (snapshot.meanDuration ?? duration)) / Math.max(1, freeCapacity(candidate).cpu / 1000);
  // Other managers sent these numbers: none makes a member better than one where the job takes no time.
  return atLeastNone(transferSeconds) + atLeastNone(wait) + atLeastNone(duration);
}

const atLeastNone = (seconds: number) => Math.max(0, seconds);

/** Of this service, otherwise of all jobs there. */
const durationAt = ({ durationSeconds, snapshot }: KnownCandidate) => durationSeconds ?? snapshot.meanDuration;

/** A member of which no duration is known counts as fast as the fastest one: otherwise it would never be tried. */
function shortestDuration(candidates: readonly KnownCandidate[]): number {
  const known = candidates.map(durationAt).filter((seconds) => seconds !== undefined);
  return known.length === 0 ? 0 : Math.min(...known);
}
