import type { JobRecord, JobState } from '../../job-record.ts';
import type { JobCondition, JobStatus } from '../api/kinds.ts';

/** What the status of a Job says, in the words of `kubectl get jobs`; `nothing` of one that nobody has written yet. */
export type Shown = 'nothing' | 'Suspended' | 'Running' | 'Complete' | 'Failed';

const TO_SHOW: Readonly<Record<JobState, Exclude<Shown, 'nothing'>>> = {
  accepted: 'Suspended',
  queued: 'Suspended',
  offering: 'Suspended',
  delegated: 'Running',
  running: 'Running',
  committing: 'Running',
  succeeded: 'Complete',
  failed: 'Failed',
  cancelled: 'Failed',
};

/**
 * What is to be shown of a record. One that Kueue has not let in, and that does not run here, is suspended wherever it is:
 * only then Kueue gives its quota to others.
 */
export function toShow({ state }: Pick<JobRecord, 'state'>, suspended = false): Exclude<Shown, 'nothing'> {
  const shown = TO_SHOW[state];
  return suspended && shown === 'Running' && state !== 'running' ? 'Suspended' : shown;
}

/** Before the end of a Job, Kubernetes wants to be told that it is about to end (`managedBy`, KEP-4368). */
const FOREBODING = { Complete: 'SuccessCriteriaMet', Failed: 'FailureTarget' } as const;

export function shownBy({ active = 0, conditions = [] }: JobStatus = {}): Shown {
  const holds = (type: string) => conditions.some((each) => each.type === type && each.status === 'True');
  if (holds('Complete')) return 'Complete';
  if (holds('Failed')) return 'Failed';
  if (holds('Suspended')) return 'Suspended';
  return active > 0 ? 'Running' : 'nothing';
}

/**
 * The status that shows a record. Kubernetes is strict with those who write one: what has ended had a beginning and has no
 * pods, a beginning never moves, and a condition that says the end never goes.
 */
export function statusOf(
  record: JobRecord,
  before: JobStatus = {},
  suspended = false,
): JobStatus & Record<string, unknown> {
  const shown = toShow(record, suspended);
  const { acceptedAt, startedAt = acceptedAt, finishedAt, timeline } = record;
  const last = timeline.at(-1);
  const ended = Math.max(finishedAt ?? last?.at ?? startedAt, startedAt);
  const said = { reason: last?.reason ?? record.state, message: last?.message ?? record.message };
  const startTime = before.startTime ?? instant(startedAt);
  const was = before.conditions ?? [];
  const paused = was.some(({ type }) => type === 'Suspended');
  const resumed = paused ? [condition('Suspended', 'False', startedAt, { reason: 'Started', message: '' })] : [];
  switch (shown) {
    case 'Suspended':
      return {
        ...KEPT,
        // Of one that is suspended it may be taken back, and must be: Kueue cannot let in what seems to have begun.
        ...(before.startTime !== undefined && !suspended && { startTime }),
        conditions: [condition('Suspended', 'True', last?.at ?? acceptedAt, said)],
      };
    case 'Running':
      return { ...KEPT, active: 1, ready: record.state === 'running' ? 1 : 0, startTime, conditions: resumed };
    case 'Complete':
    case 'Failed': {
      const ends = [FOREBODING[shown], shown].map((type) => condition(type, 'True', ended, said));
      // What has begun later than it has ended is a clock that was set: the beginning stays, so the end has to give.
      const completionTime = instant(Math.max(ended, Date.parse(startTime)));
      const sum = shown === 'Complete' ? { succeeded: 1, completionTime } : { failed: 1 };
      return { ...KEPT, ...sum, startTime, conditions: [...resumed, ...ends] };
    }
  }
}

/** Pods that Kubernetes has yet to count; there are none, and once that is said it must stay said. */
const KEPT = { terminating: 0, uncountedTerminatedPods: {} };

function condition(
  type: string,
  status: JobCondition['status'],
  at: number,
  said: { readonly reason: string; readonly message: string },
): JobCondition & { readonly lastProbeTime: string } {
  return { type, status, ...said, lastTransitionTime: instant(at), lastProbeTime: instant(at) };
}

/** In whole seconds, as the API has it. */
const instant = (milliseconds: number) => `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
