import type { Candidate, Known, Snapshot } from './policy.ts';

/**
 * How old a snapshot may be, in milliseconds. Shorter: a member that missed one refresh or two is asked last although it
 * may be idle. Longer: jobs are offered by what was true long ago, and each wrong offer costs a round trip.
 */
export const STALE = 60_000;

/** Is there a status of this candidate that can be believed? An `endpoint` is any url and has none. */
export function isKnown(candidate: Candidate): candidate is Known {
  const { type, snapshot } = candidate;
  return type === 'oscar' && snapshot !== undefined && snapshot.age <= STALE && numbersIn(snapshot).every(isSensible);
}

/** Other managers wrote these numbers: one that is none would spoil the scores of everybody. */
const isSensible = (value: number) => Math.abs(value) <= Number.MAX_SAFE_INTEGER;

function numbersIn({ nodes, freeCpu, nodeCount, roundTrip = 0, meanDuration = 0, pending = 0 }: Snapshot): number[] {
  return [
    freeCpu,
    nodeCount,
    roundTrip,
    meanDuration,
    pending,
    ...nodes.flatMap(({ cpu, memory, gpu }) => [cpu, memory, gpu]),
  ];
}
