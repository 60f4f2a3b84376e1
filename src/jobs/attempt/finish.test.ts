import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobRecord } from '../../model/job/index.ts';
import type { StopReason } from '../../ports/index.ts';
import { type AttemptOutcome, conclude } from './finish.ts';

const ATTEMPT = 'calf-1';
const TAKEN = { uid: 'u', member: 'b/calf', job: { service: 'cow', id: 'cow-1' }, epoch: 1, payload: '' };

function running(more: Partial<JobRecord>): JobRecord {
  const timeline = [{ state: 'running', at: 5, reason: 'Started', message: '', place: 'b' }];
  const attempts = [{ name: ATTEMPT, epoch: 1, place: 'b' }];
  return { service: 'calf', id: ATTEMPT, state: 'running', timeline, attempts, ...more } as unknown as JobRecord;
}

const well: AttemptOutcome = {
  outcome: 'succeeded',
  reason: 'Completed',
  message: 'm',
  startedAt: 6,
  finishedAt: 9,
  exitCode: 0,
};
const badly: AttemptOutcome = { ...well, outcome: 'failed', reason: 'ScriptFailed', exitCode: 3 };
const neverBegun: AttemptOutcome = { outcome: 'failed', reason: 'ImageFailed', message: 'm', finishedAt: 9 };
const stopped: AttemptOutcome = { outcome: 'stopped', reason: 'Stopped', message: 'it was stopped', finishedAt: 9 };
const calledOff: AttemptOutcome = { ...stopped, message: 'its federation has ended', calledOff: true };

interface Case {
  readonly name: string;
  readonly end: AttemptOutcome;
  readonly stop?: StopReason;
  readonly job?: Partial<JobRecord>;
  /** Of the transition. */
  readonly becomes: [state: string, reason: string];
  /** Outcome and reason of what its origin is told. */
  readonly handsIn?: [outcome: string, reason: string];
}

const asked = { cancelRequested: { at: 7, reason: 'it was cancelled' } };
const cases: Case[] = [
  { name: 'a job of this cluster ends as its script did', end: well, becomes: ['succeeded', 'Completed'] },
  { name: 'also when that was not well', end: badly, becomes: ['failed', 'ScriptFailed'] },
  { name: 'or when it never began', end: neverBegun, becomes: ['failed', 'ImageFailed'] },
  { name: 'one that was stopped is cancelled', end: stopped, stop: 'cancelled', becomes: ['cancelled', 'Cancelled'] },
  {
    name: 'one that the cluster would not let go on has failed: nobody asked for that',
    end: stopped,
    stop: 'evicted',
    job: { held: 'its queue does not let it go on' },
    becomes: ['failed', 'Evicted'],
  },
  { name: 'unless it had ended by itself', end: well, stop: 'evicted', becomes: ['succeeded', 'Completed'] },
  {
    name: 'one that was taken has failed by that too, if it had begun',
    end: stopped,
    stop: 'evicted',
    job: { taken: TAKEN, startedAt: 6 },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['failed', 'Evicted'],
  },
  {
    name: 'the end of one that was taken is for its origin to hear',
    end: { ...well, manifest: 'd' },
    job: { taken: TAKEN },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['succeeded', 'Completed'],
  },
  {
    name: 'success without a list of results is none',
    end: well,
    job: { taken: TAKEN },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['failed', 'OutputFailed'],
  },
  {
    name: 'a failure is handed in as one',
    end: badly,
    job: { taken: TAKEN },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['failed', 'ScriptFailed'],
  },
  {
    name: 'what never began is given back',
    end: neverBegun,
    job: { taken: TAKEN },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['cancelled', 'ImageFailed'],
  },
  {
    name: 'what had begun by its record is not',
    end: neverBegun,
    job: { taken: TAKEN, startedAt: 6 },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['failed', 'ImageFailed'],
  },
  {
    name: 'what somebody here cancelled is handed in as that',
    end: stopped,
    stop: 'cancelled',
    job: { taken: TAKEN, ...asked },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['cancelled', 'Cancelled'],
  },
  {
    name: 'what its origin stopped ends at once',
    end: stopped,
    stop: 'superseded',
    job: { taken: TAKEN, ...asked },
    becomes: ['cancelled', 'Superseded'],
  },
  {
    name: 'what ended well before the stop reached it is handed in all the same',
    end: { ...well, manifest: 'd' },
    stop: 'superseded',
    job: { taken: TAKEN },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['succeeded', 'Completed'],
  },
  {
    name: 'what its origin called off ends at once',
    end: calledOff,
    job: { taken: TAKEN },
    becomes: ['cancelled', 'Superseded'],
  },
];
for (const { name, end, stop, job = {}, becomes, handsIn } of cases) {
  test(name, () => {
    const change = conclude(running(job), ATTEMPT, end, stop, 'b');
    const last = change?.timeline?.at(-1);
    assert.deepEqual([last?.state, last?.reason], becomes);
    assert.deepEqual(change?.handIn && [change.handIn.outcome, change.handIn.reason], handsIn);
    assert.equal(change?.finishedAt, 9);
    assert.equal(change?.attempts?.[0]?.finishedAt, 9);
  });
}

test('a job that has ended already stays what it is', () => {
  assert.equal(conclude(running({ state: 'cancelled' }), ATTEMPT, well, undefined, 'b'), undefined);
});
