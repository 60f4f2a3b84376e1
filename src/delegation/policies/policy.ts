import type { Snapshot } from '../../model/cluster-snapshot.ts';
import type { Demand } from '../../model/job/index.ts';

/** `<cluster id>/<service>`, or the URL of an `endpoint` member. */
export type MemberId = string;

/** Returns numbers in [0, 1), as `Math.random` does. */
export type Random = () => number;

/** Weights by cluster id, as in the definition. */
export type Weights = Readonly<Record<string, number>>;

/** A member that could run a job, or the origin's own cluster. */
export interface Candidate {
  readonly member: MemberId;
  readonly type: 'oscar' | 'endpoint';
  readonly isSelf: boolean;
  readonly priority: number;
  /** Takes precedence over the definition's weight for its cluster. */
  readonly weight?: number;
  readonly snapshot: Snapshot | undefined;
  /** The demand of jobs that were sent there and are not in the snapshot; negative if more have ended since. */
  readonly inFlight: Demand;
  /** How long the input of this job takes to get there, in seconds; absent if the link was not measured. */
  readonly transferSeconds?: number;
  /** How long recent jobs of this job's service took there, in seconds. */
  readonly durationSeconds?: number;
}

/** A candidate with a valid snapshot. */
export interface KnownCandidate extends Candidate {
  readonly snapshot: Snapshot;
}

/** A candidate to which the job may be offered. */
export interface Eligible {
  readonly candidate: Candidate;
  /**
   * Lower is better. Absent if the policy needs a snapshot and there is none: such candidates are asked after those
   * with a score.
   */
  readonly score?: number;
  readonly refusal?: undefined;
}

/** A candidate to which the job is not offered. */
export interface Excluded {
  readonly candidate: Candidate;
  /** The reason, as a sentence. */
  readonly refusal: string;
  readonly score?: undefined;
}

export type Ranking = Eligible | Excluded;

/** How a policy orders the candidates that can run a job. */
export type DelegationPolicy =
  | {
      readonly goesBy: 'definition';
      order(candidates: readonly Candidate[], weights: Weights, random: Random): Eligible[];
    }
  /** Candidates without a valid snapshot come after the others. */
  | {
      readonly goesBy: 'status';
      order(candidates: readonly KnownCandidate[], weights: Weights, random: Random): Eligible[];
    };
