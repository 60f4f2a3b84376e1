import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobRecord } from '../../model/job/index.ts';
import type { StopReason } from '../../ports/index.ts';
import { type AttemptOutcome, conclude } from './run.ts';

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
  { name: 'a local job succeeds with its script', end: well, becomes: ['succeeded', 'Completed'] },
  { name: 'a local job fails with its script', end: badly, becomes: ['failed', 'ScriptFailed'] },
  { name: 'a local job fails if its script never started', end: neverBegun, becomes: ['failed', 'ImageFailed'] },
  { name: 'a stopped job is cancelled', end: stopped, stop: 'cancelled', becomes: ['cancelled', 'Cancelled'] },
  {
    name: 'an evicted job fails',
    end: stopped,
    stop: 'evicted',
    job: { held: 'its queue does not let it go on' },
    becomes: ['failed', 'Evicted'],
  },
  {
    name: 'a job that ended before its eviction keeps its outcome',
    end: well,
    stop: 'evicted',
    becomes: ['succeeded', 'Completed'],
  },
  {
    name: 'an evicted hosted job fails if its script had started',
    end: stopped,
    stop: 'evicted',
    job: { taken: TAKEN, startedAt: 6 },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['failed', 'Evicted'],
  },
  {
    name: 'a hosted job commits until its origin has the result',
    end: { ...well, manifest: 'd' },
    job: { taken: TAKEN },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['succeeded', 'Completed'],
  },
  {
    name: 'a hosted success without a manifest is a failure',
    end: well,
    job: { taken: TAKEN },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['failed', 'OutputFailed'],
  },
  {
    name: 'a hosted failure is reported as failed',
    end: badly,
    job: { taken: TAKEN },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['failed', 'ScriptFailed'],
  },
  {
    name: 'a hosted job that never started is returned to its origin',
    end: neverBegun,
    job: { taken: TAKEN },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['cancelled', 'ImageFailed'],
  },
  {
    name: 'a hosted job that had started by its record is not returned',
    end: neverBegun,
    job: { taken: TAKEN, startedAt: 6 },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['failed', 'ImageFailed'],
  },
  {
    name: 'a hosted job that was cancelled here is reported as cancelled',
    end: stopped,
    stop: 'cancelled',
    job: { taken: TAKEN, ...asked },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['cancelled', 'Cancelled'],
  },
  {
    name: 'a hosted job that its origin stopped ends at once',
    end: stopped,
    stop: 'superseded',
    job: { taken: TAKEN, ...asked },
    becomes: ['cancelled', 'Superseded'],
  },
  {
    name: 'a hosted job that succeeded before the stop arrived is reported',
    end: { ...well, manifest: 'd' },
    stop: 'superseded',
    job: { taken: TAKEN },
    becomes: ['committing', 'HandingIn'],
    handsIn: ['succeeded', 'Completed'],
  },
  {
    name: 'a hosted job that its origin withdrew ends at once',
    end: calledOff,
    job: { taken: TAKEN },
    becomes: ['cancelled', 'Superseded'],
  },
];
for (const { name, end, stop, job = {}, becomes, handsIn } of cases) {
  test(`finish: ${name}`, () => {
    const change = conclude(running(job), ATTEMPT, end, stop, 'b');
    const last = change?.timeline?.at(-1);
    assert.deepEqual([last?.state, last?.reason], becomes);
    assert.deepEqual(change?.handIn && [change.handIn.outcome, change.handIn.reason], handsIn);
    assert.equal(change?.finishedAt, 9);
    assert.equal(change?.attempts?.[0]?.finishedAt, 9);
  });
}

test('finish: a final state does not change', () => {
  assert.equal(conclude(running({ state: 'cancelled' }), ATTEMPT, well, undefined, 'b'), undefined);
});
