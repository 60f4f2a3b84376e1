import {
  advance,
  type DecisionRecord,
  type JobProgress,
  type JobRecord,
  type Placement,
  type SeenRequests,
  type Transition,
} from '../../model/job/index.ts';

/** What becomes of the record of a job that another cluster is to run: pure, and each for one compare-and-swap. */

/** More decisions are not kept: records are small. */
const KEPT_DECISIONS = 5;

type Change = Partial<JobProgress> | undefined;
type Word = Pick<Transition, 'at' | 'reason' | 'message' | 'place'>;

/** The placement, as far as it counts. */
export function currentPlacement({ state, epoch, placement }: JobRecord): Placement | undefined {
  const counts = state === 'offering' || state === 'delegated' || state === 'committing';
  return counts && placement?.epoch === epoch ? placement : undefined;
}

/** The job is offered to this member, and nobody else has it any more: a new epoch. */
export function toOffering(job: JobRecord, member: string, decision: DecisionRecord, word: Word): Change {
  const epoch = job.epoch + 1;
  const facts = { epoch, placement: { member, epoch }, decisions: appendDecision(job, { ...decision, epoch }) };
  // From one member to the next there is no state between; each offer is a line in the story all the same.
  const from = job.state === 'offering' ? { ...job, state: 'queued' as const } : job;
  return advance(from, { ...word, state: 'offering' }, facts);
}

/** It waits here again. The epoch stays: whatever runs next, here or elsewhere, raises it. */
export function toQueued(job: JobRecord, word: Word, decision?: DecisionRecord): Change {
  return advance(job, { ...word, state: 'queued' }, decision && { decisions: appendDecision(job, decision) });
}

/** The member may run it, or was told so before and asks again. */
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
