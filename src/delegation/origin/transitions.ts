import {
  advance,
  type DecisionRecord,
  type JobProgress,
  type JobRecord,
  type Placement,
  type SeenRequests,
  type Transition,
} from '../../model/job/index.ts';

/** Changes of the record of a delegated job. All are pure; each is written by one compare-and-swap. */

/** Only the last decisions are kept, because records must stay small. */
const KEPT_DECISIONS = 5;

type Change = Partial<JobProgress> | undefined;
type Word = Pick<Transition, 'at' | 'reason' | 'message' | 'place'>;

/** The placement, if it belongs to the current epoch and the job is not back in the queue. */
export function currentPlacement({ state, epoch, placement }: JobRecord): Placement | undefined {
  const counts = state === 'offering' || state === 'delegated' || state === 'committing';
  return counts && placement?.epoch === epoch ? placement : undefined;
}

/** The job is offered to this member with a new epoch, so all earlier attempts are fenced. */
export function toOffering(job: JobRecord, member: string, decision: DecisionRecord, word: Word): Change {
  const epoch = job.epoch + 1;
  const facts = { epoch, placement: { member, epoch }, decisions: appendDecision(job, { ...decision, epoch }) };
  // There is no state between two offers, but each offer is an entry in the timeline.
  const from = job.state === 'offering' ? { ...job, state: 'queued' as const } : job;
  return advance(from, { ...word, state: 'offering' }, facts);
}

/** The job waits at the origin again. The epoch stays: the next attempt raises it. */
export function toQueued(job: JobRecord, word: Word, decision?: DecisionRecord): Change {
  return advance(job, { ...word, state: 'queued' }, decision && { decisions: appendDecision(job, decision) });
}

/** The member gets a permit, or renews the one that it has. */
export function toDelegated(job: JobRecord, before: Placement, asked: SeenRequests, word: Word): Change {
  const { at } = word;
  const placement = { ...before, asked, heardAt: at };
  if (job.state === 'delegated') return { placement };
  const facts = { placement: { ...placement, permittedAt: at } };
  return advance(job, { ...word, state: 'delegated' }, facts);
}

/** The decisions with this one as the last. */
export function appendDecision({ decisions }: JobRecord, decision: DecisionRecord): readonly DecisionRecord[] {
  return [...decisions, decision].slice(-KEPT_DECISIONS);
}
