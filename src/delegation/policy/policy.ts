import type { Demand } from '../../cluster/index.ts';

/** `<cluster>/<service>`, or the url of a member that is an `endpoint`. */
export type MemberId = string;

/** Numbers in [0, 1), as `Math.random` gives them. */
export type Chance = () => number;

/** Per cluster id, as the definition has them. */
export type Weights = Readonly<Record<string, number>>;

/** Millicores, bytes and devices that nobody has asked for. */
export interface Free {
  readonly cpu: number;
  readonly memory: number;
  readonly gpu: number;
}

/** What is known of a cluster. */
export interface Snapshot {
  /** What is free on each node that takes work. */
  readonly nodes: readonly Free[];
  /** Millicores, on all nodes together. */
  readonly freeCpu: number;
  readonly nodeCount: number;
  /** Milliseconds since it was true. */
  readonly age: number;
  /** Milliseconds; 0 for this cluster. */
  readonly roundTrip?: number;
  /** Mean of recent jobs, in seconds. */
  readonly meanDuration?: number;
  /** Jobs that wait there. */
  readonly pending?: number;
}

/** A member that a job could go to, or this cluster. */
export interface Candidate {
  readonly member: MemberId;
  readonly type: 'oscar' | 'endpoint';
  readonly isSelf: boolean;
  readonly priority: number;
  /** Counts more than what the definition's weights say of its cluster. */
  readonly weight?: number;
  readonly snapshot: Snapshot | undefined;
  /** What was sent there since, and the snapshot does not show. */
  readonly inFlight: Demand;
}

/** A candidate whose status counts. */
export interface Known extends Candidate {
  readonly snapshot: Snapshot;
}

/** One that the job may be offered to. */
export interface Taker {
  readonly candidate: Candidate;
  /** Lower is better. Absent: the policy goes by status and has none, so it is asked after those that have a score. */
  readonly score?: number;
  readonly refusal?: undefined;
}

/** One that the job is not offered to. */
export interface Refused {
  readonly candidate: Candidate;
  /** Why, as a sentence. */
  readonly refusal: string;
  readonly score?: undefined;
}

export type Ranking = Taker | Refused;

export const POLICIES = ['static', 'random', 'load-based', 'topsis'] as const;

export type PolicyName = (typeof POLICIES)[number];

/** The policy of that name. Definitions are checked when they are read: any other name is `static`, the default. */
export function policyNamed(name: string | undefined): PolicyName {
  return POLICIES.find((policy) => policy === name) ?? 'static';
}
