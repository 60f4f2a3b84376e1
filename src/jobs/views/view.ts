import type { Admin, User } from '../../identity/index.ts';
import {
  type AttemptRecord,
  type DecisionRecord,
  type JobRecord,
  type JobState,
  type NewJob,
  type Phase,
  phaseOf,
  type Transition,
} from '../../model/job/index.ts';

/** What of a job stands in events and at the head of its view. Times are RFC 3339 in UTC. */
export interface JobSummary {
  readonly id: string;
  readonly service: string;
  readonly state: JobState;
  /** What clients of the Go manager call the state. */
  readonly phase: Phase;
  readonly message: string;
  readonly trigger: NewJob['trigger'];
  /** Who caused it, if it is known and the viewer may know. */
  readonly invoker?: string;
  readonly object?: { readonly bucket: string; readonly key: string };
  readonly accepted_at: string;
  readonly started_at?: string;
  readonly finished_at?: string;
  readonly exit_code?: number;
  /** Somebody wants it to end, and it has not yet. */
  readonly cancelling?: true;
}

/** A job with everything that is known of its life. */
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
      return { name, epoch, place, ...courseOf(attempt) };
    }),
    decisions: record.decisions.map(({ at, ...decision }) => ({ at: timeOf(at), ...decision })),
    timeline: record.timeline.map(({ state, at, reason, message, place }) => ({
      state,
      at: timeOf(at),
      reason,
      message,
      place,
    })),
  };
}

export function summarizeJob(record: JobRecord, viewer: Admin | User): JobSummary {
  const { id, service, state, held, trigger, object } = record;
  const message = state === 'queued' ? (held ?? record.message) : record.message;
  const phase = phaseOf(state);
  return {
    id,
    service,
    state,
    phase,
    message,
    trigger,
    ...(seesInvoker(record, viewer) && { invoker: record.invoker }),
    ...(object && { object: { bucket: object.bucket, key: object.key } }),
    accepted_at: timeOf(record.acceptedAt),
    ...courseOf(record),
    ...(record.cancelRequested && (phase === 'Pending' || phase === 'Running') && { cancelling: true as const }),
  };
}

/**
 * A job as the Go manager lists it (docs/go-manager.md#jobs-and-logs): nothing but text, and times without fractions.
 */
export interface OldJobView {
  readonly status: Phase;
  readonly creation_time: string;
  readonly start_time?: string;
  readonly finish_time?: string;
}

export function oldJobView({ state, acceptedAt, startedAt, finishedAt }: JobRecord): OldJobView {
  return {
    status: phaseOf(state),
    creation_time: secondsOf(acceptedAt),
    ...(startedAt !== undefined && { start_time: secondsOf(startedAt) }),
    ...(finishedAt !== undefined && { finish_time: secondsOf(finishedAt) }),
  };
}

/** Whoever put a file into a shared bucket is the owner's to know, not that of others who may use the service. */
function seesInvoker({ invoker, owner }: JobRecord, viewer: Admin | User): boolean {
  if (invoker === '') return false;
  return viewer.kind === 'admin' || viewer.uid === owner || viewer.uid === invoker;
}

function courseOf({ startedAt, finishedAt, exitCode }: Pick<AttemptRecord, 'startedAt' | 'finishedAt' | 'exitCode'>) {
  return {
    ...(startedAt !== undefined && { started_at: timeOf(startedAt) }),
    ...(finishedAt !== undefined && { finished_at: timeOf(finishedAt) }),
    ...(exitCode !== undefined && { exit_code: exitCode }),
  };
}

const timeOf = (ms: number) => new Date(ms).toISOString();
const secondsOf = (ms: number) => timeOf(ms).replace(/\.\d+Z$/, 'Z');
