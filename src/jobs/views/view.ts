import type { Admin, User } from '../../identity/index.ts';
import {
  type AttemptRecord,
  type DecisionRecord,
  type JobRecord,
  type JobState,
  type NewJob,
  type Phase,
  type Transition,
  toPhase,
} from '../../model/job/index.ts';

/** The summary of a job, for lists and events. Times are RFC 3339 in UTC. */
export interface JobSummary {
  readonly id: string;
  readonly service: string;
  readonly state: JobState;
  /** The state in the words of the Go manager. */
  readonly phase: Phase;
  readonly message: string;
  readonly trigger: NewJob['trigger'];
  /** Who caused it, if known and visible to the viewer. */
  readonly invoker?: string;
  /** The member where the job entered. It claims who the invoker is; this cluster has not authenticated the invoker. */
  readonly invoker_claimed_by?: string;
  readonly object?: { readonly bucket: string; readonly key: string };
  /** The cluster of the last attempt. */
  readonly place?: string;
  readonly accepted_at: string;
  readonly started_at?: string;
  readonly finished_at?: string;
  readonly exit_code?: number;
  /** Its cancellation was requested, and it has not ended yet. */
  readonly cancelling?: true;
}

/** A job with its attempts, decisions and timeline. */
export interface JobView extends JobSummary {
  readonly attempts: readonly AttemptView[];
  readonly decisions: readonly DecisionView[];
  readonly timeline: readonly TransitionView[];
}

type AttemptView = Pick<AttemptRecord, 'name' | 'epoch' | 'place'> &
  Pick<JobSummary, 'started_at' | 'finished_at' | 'exit_code'>;
type DecisionView = Omit<DecisionRecord, 'at'> & { readonly at: string };
type TransitionView = Omit<Transition, 'at'> & { readonly at: string };

export function viewJob(record: JobRecord, viewer: Admin | User): JobView {
  return {
    ...summarizeJob(record, viewer),
    attempts: record.attempts.map((attempt) => {
      const { name, epoch, place } = attempt;
      return { name, epoch, place, ...toRunTimes(attempt) };
    }),
    decisions: record.decisions.map(({ at, ...decision }) => ({ at: toIsoTime(at), ...decision })),
    timeline: record.timeline.map(({ state, at, reason, message, place }) => ({
      state,
      at: toIsoTime(at),
      reason,
      message,
      place,
    })),
  };
}

export function summarizeJob(record: JobRecord, viewer: Admin | User): JobSummary {
  const { id, service, state, held, trigger, object } = record;
  const message = state === 'queued' ? (held ?? record.message) : record.message;
  const phase = toPhase(state);
  const place = record.attempts.at(-1)?.place;
  return {
    id,
    service,
    state,
    phase,
    message,
    trigger,
    ...(seesInvoker(record, viewer) && { invoker: record.invoker, ...toClaim(record) }),
    ...(object && { object: { bucket: object.bucket, key: object.key } }),
    ...(place !== undefined && { place }),
    accepted_at: toIsoTime(record.acceptedAt),
    ...toRunTimes(record),
    ...(record.cancelRequested && (phase === 'Pending' || phase === 'Running') && { cancelling: true as const }),
  };
}

/**
 * A job as the Go manager lists it (docs/go-manager.md#jobs-and-logs): nothing but text, and times without fractions.
 */
export interface GoJobView {
  readonly status: Phase;
  readonly creation_time: string;
  readonly start_time?: string;
  readonly finish_time?: string;
}

export function goJobView({ state, acceptedAt, startedAt, finishedAt }: JobRecord): GoJobView {
  return {
    status: toPhase(state),
    creation_time: toIsoSeconds(acceptedAt),
    ...(startedAt !== undefined && { start_time: toIsoSeconds(startedAt) }),
    ...(finishedAt !== undefined && { finish_time: toIsoSeconds(finishedAt) }),
  };
}

/** The owner of a service may know who put a file into a shared bucket; other users of the service may not. */
export function seesInvoker({ invoker, owner }: JobRecord, viewer: Admin | User): boolean {
  if (invoker === '') return false;
  return viewer.kind === 'admin' || viewer.uid === owner || viewer.uid === invoker;
}

const toClaim = ({ openedBy }: JobRecord) => (openedBy === undefined ? {} : { invoker_claimed_by: openedBy });

function toRunTimes({ startedAt, finishedAt, exitCode }: Pick<AttemptRecord, 'startedAt' | 'finishedAt' | 'exitCode'>) {
  return {
    ...(startedAt !== undefined && { started_at: toIsoTime(startedAt) }),
    ...(finishedAt !== undefined && { finished_at: toIsoTime(finishedAt) }),
    ...(exitCode !== undefined && { exit_code: exitCode }),
  };
}

const toIsoTime = (ms: number) => new Date(ms).toISOString();
const toIsoSeconds = (ms: number) => toIsoTime(ms).replace(/\.\d+Z$/, 'Z');
