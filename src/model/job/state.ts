import {
  type AttemptRecord,
  type JobProgress,
  type JobState,
  KEPT_ATTEMPTS,
  KEPT_TRANSITIONS,
  type Transition,
} from './job-record.ts';

/**
 * The states of a job (docs/jobs.md#its-life). A final state never changes: not by a late report, not by a second cancel, not
 * by a manager that wakes up after a pause.
 */
const NEXT: Readonly<Record<JobState, readonly JobState[]>> = {
  accepted: ['queued', 'failed', 'cancelled'],
  queued: ['running', 'offering', 'failed', 'cancelled'],
  offering: ['delegated', 'queued', 'running', 'failed', 'cancelled'],
  delegated: ['committing', 'offering', 'queued', 'failed', 'cancelled'],
  running: ['committing', 'succeeded', 'failed', 'cancelled'],
  committing: ['succeeded', 'failed', 'cancelled'],
  succeeded: [],
  failed: [],
  cancelled: [],
};

export const isFinal = (state: JobState): boolean => NEXT[state].length === 0;

export const canTransition = (from: JobState, to: JobState): boolean => NEXT[from].includes(to);

/** The progress of a newly accepted job, which is queued. */
export function accepted(at: number, place: string): JobProgress {
  const began: Transition = { state: 'accepted', at, reason: 'Accepted', message: 'the job was accepted', place };
  const waits: Transition = { state: 'queued', at, reason: 'Waiting', message: 'waits for room', place };
  return {
    state: 'queued',
    message: waits.message,
    epoch: 0,
    timeline: [began, waits],
    attempts: [],
    decisions: [],
  };
}

/** Fields that may change with a transition. */
export type TransitionFacts = Pick<
  Partial<JobProgress>,
  'startedAt' | 'finishedAt' | 'exitCode' | 'epoch' | 'attempts' | 'decisions' | 'placement' | 'handIn'
>;

/** The change that makes the transition; undefined if the current state does not allow it. */
export function advance(
  progress: JobProgress,
  transition: Transition,
  facts: TransitionFacts = {},
): Partial<JobProgress> | undefined {
  if (!canTransition(progress.state, transition.state)) return undefined;
  return {
    ...facts,
    ...(facts.attempts && { attempts: facts.attempts.slice(-KEPT_ATTEMPTS) }),
    state: transition.state,
    message: transition.message,
    timeline: kept([...progress.timeline, transition]),
  };
}

/** Drops old transitions, but never the first one, which has the time of acceptance. */
function kept(timeline: readonly Transition[]): readonly Transition[] {
  const [first] = timeline;
  return timeline.length <= KEPT_TRANSITIONS || !first
    ? timeline
    : [first, ...timeline.slice(timeline.length - KEPT_TRANSITIONS + 1)];
}

/** The attempts, with the attempt of that name changed. */
export function withAttempt(
  attempts: readonly AttemptRecord[],
  name: string,
  change: Partial<AttemptRecord>,
): AttemptRecord[] {
  return attempts.map((attempt) => (attempt.name === name ? { ...attempt, ...change } : attempt));
}

/** The state in the words of the Go manager: the phase of a pod. */
export type Phase = 'Pending' | 'Running' | 'Succeeded' | 'Failed';

const PHASES: Readonly<Record<JobState, Phase>> = {
  accepted: 'Pending',
  queued: 'Pending',
  offering: 'Pending',
  delegated: 'Running',
  running: 'Running',
  committing: 'Running',
  succeeded: 'Succeeded',
  failed: 'Failed',
  cancelled: 'Failed',
};

export const toPhase = (state: JobState): Phase => PHASES[state];
