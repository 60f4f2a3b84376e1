import type { ListedJob } from './view.ts';

/** What a manager says of a job, with all that was decided about it. */
export interface ToldJob extends ListedJob {
  readonly attempts: readonly Attempt[];
  readonly decisions: readonly ToldDecision[];
  readonly timeline: readonly ToldTransition[];
}

interface Attempt {
  readonly place: string;
  readonly started_at?: string;
  readonly finished_at?: string;
}

export interface ToldDecision {
  readonly at: string;
  readonly policy: string;
  readonly chosen?: string;
  readonly candidates: readonly ToldCandidate[];
}

export interface ToldCandidate {
  readonly member: string;
  readonly score?: number;
  readonly refusal?: string;
  /** Of what was known of its cluster, in seconds. */
  readonly age?: number;
}

export interface ToldTransition {
  readonly state: string;
  readonly at: string;
  readonly reason: string;
  readonly message: string;
  readonly place: string;
}

/** The cluster that the job belongs to. */
export const originOf = ({ timeline }: ToldJob) => timeline[0]?.place ?? '';

/** The cluster where it ran last, if it has begun anywhere. */
export const ranAt = ({ attempts }: ToldJob) => attempts.at(-1)?.place;

/** `oscar-cluster-a` of `oscar-cluster-a/grey1`; an endpoint is its own. */
export const clusterOf = (member: string) => (/^https?:/.test(member) ? member : (member.split('/')[0] ?? member));
