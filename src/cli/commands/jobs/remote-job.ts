import type { Column } from '../../client/table.ts';
import { formatSpan } from '../units.ts';

/** The fields of a job that lists show. */
export interface RemoteJobSummary {
  readonly id: string;
  readonly service: string;
  readonly state: string;
  readonly message: string;
  readonly trigger: string;
  readonly object?: { readonly bucket: string; readonly key: string };
  readonly accepted_at: string;
  readonly started_at?: string;
  readonly finished_at?: string;
  readonly exit_code?: number;
  readonly attempts: readonly { readonly place: string }[];
}

export const FINAL_STATES: ReadonlySet<string> = new Set(['succeeded', 'failed', 'cancelled']);

const at = (time: string | undefined) => (time === undefined ? Number.NaN : Date.parse(time));

export const JOB_COLUMNS: readonly Column<RemoteJobSummary>[] = [
  { title: 'JOB', of: ({ id }) => id },
  { title: 'STATE', of: ({ state }) => state },
  { title: 'AGE', of: ({ accepted_at }) => formatSpan(Date.now() - at(accepted_at)) },
  {
    title: 'TOOK',
    of: ({ started_at, finished_at }) =>
      started_at && finished_at ? formatSpan(at(finished_at) - at(started_at)) : '',
  },
  { title: 'WHERE', of: ({ attempts }) => attempts.at(-1)?.place ?? '' },
  { title: 'CAUSED BY', of: ({ trigger, object }) => (object ? `${object.bucket}/${object.key}` : trigger) },
  { title: 'EXIT', of: ({ exit_code }) => String(exit_code ?? ''), wide: true },
  { title: 'MESSAGE', of: ({ message }) => message, wide: true },
];

/** A job with its attempts, decisions and timeline, as the manager returns it. */
export interface RemoteJob extends RemoteJobSummary {
  readonly attempts: readonly Attempt[];
  readonly decisions: readonly RemoteDecision[];
  readonly timeline: readonly RemoteTransition[];
}

interface Attempt {
  readonly place: string;
  readonly started_at?: string;
  readonly finished_at?: string;
}

export interface RemoteDecision {
  readonly at: string;
  readonly policy: string;
  readonly chosen?: string;
  readonly candidates: readonly RemoteCandidate[];
}

export interface RemoteCandidate {
  readonly member: string;
  readonly score?: number;
  readonly refusal?: string;
  /** Age of the cluster's metrics at the decision, in seconds. */
  readonly age?: number;
}

export interface RemoteTransition {
  readonly state: string;
  readonly at: string;
  readonly reason: string;
  readonly message: string;
  readonly place: string;
}

/** The cluster that accepted the job. */
export const originCluster = ({ timeline }: RemoteJob) => timeline[0]?.place ?? '';

/** The cluster of the last attempt, if there was one. */
export const lastCluster = ({ attempts }: RemoteJob) => attempts.at(-1)?.place;

/** `oscar-cluster-a` of `oscar-cluster-a/grey1`; an endpoint stands for itself. */
export const memberCluster = (member: string) => (/^https?:/.test(member) ? member : (member.split('/')[0] ?? member));
