import type { Snapshot } from '../../model/cluster-snapshot.ts';
import type { Demand } from '../../model/job/index.ts';

/** `<cluster>/<service>`, or the url of a member that is an `endpoint`. */
export type MemberId = string;

/** Numbers in [0, 1), as `Math.random` gives them. */
export type Random = () => number;

/** Per cluster id, as the definition has them. */
export type Weights = Readonly<Record<string, number>>;

/** A member that a job could go to, or this cluster. */
export interface Candidate {
  readonly member: MemberId;
  readonly type: 'oscar' | 'endpoint';
  readonly isSelf: boolean;
  readonly priority: number;
  /** Counts more than what the definition's weights say of its cluster. */
  readonly weight?: number;
  readonly snapshot: Snapshot | undefined;
  /** What was sent there since, and the snapshot does not show; below zero when more has ended there since. */
  readonly inFlight: Demand;
}

/** A candidate whose status counts. */
export interface KnownCandidate extends Candidate {
  readonly snapshot: Snapshot;
}

/** One that the job may be offered to. */
export interface Eligible {
  readonly candidate: Candidate;
  /** Lower is better. Absent: the policy goes by status and has none, so it is asked after those that have a score. */
  readonly score?: number;
  readonly refusal?: undefined;
}

/** One that the job is not offered to. */
export interface Excluded {
  readonly candidate: Candidate;
  /** Why, as a sentence. */
  readonly refusal: string;
  readonly score?: undefined;
}

export type Ranking = Eligible | Excluded;

/** How a policy orders the candidates that can take a job. */
export type DelegationPolicy =
  | {
      readonly goesBy: 'definition';
      order(candidates: readonly Candidate[], weights: Weights, chance: Random): Eligible[];
    }
  /** Candidates whose status is not known come after the others. */
  | {
      readonly goesBy: 'status';
      order(candidates: readonly KnownCandidate[], weights: Weights, chance: Random): Eligible[];
    };
