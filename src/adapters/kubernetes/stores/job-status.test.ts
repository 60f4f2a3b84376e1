import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Version } from '../../../lib/version.ts';
import { JOB_STATES, type JobProgress, type JobRecord } from '../../../model/job/index.ts';
import { EPOCH, sampleJob, sampleProgress } from '../../../ports/conformance/sample-job.ts';
import { shownBy, statusOf, toShow } from './job-object.ts';

const record = (known: Partial<JobProgress>): JobRecord => ({
  ...sampleJob('a'),
  ...sampleProgress('accepted', known),
  eventBytes: 0,
  version: 'v' as Version,
});

test('what is written is what is read from it, whatever was there before', () => {
  for (const before of JOB_STATES) {
    const was = statusOf(record({ state: before, startedAt: EPOCH }));
    for (const state of JOB_STATES) {
      assert.equal(shownBy(statusOf(record({ state }), was)), toShow({ state }), `${before} → ${state}`);
    }
  }
  assert.equal(shownBy(undefined), 'nothing');
});

test('a beginning that was shown stays, and no end comes before it', () => {
  const running = statusOf(record({ state: 'running', startedAt: EPOCH + 60_000 }));
  assert.equal(running.startTime, '2023-11-14T22:14:20Z');
  const ended = statusOf(record({ state: 'succeeded', startedAt: EPOCH, finishedAt: EPOCH + 1_000 }), running);
  assert.equal(ended.startTime, running.startTime);
  assert.equal(ended.completionTime, running.startTime);
  const queued = statusOf(record({ state: 'queued' }), running);
  assert.equal(queued.startTime, running.startTime);
});

test('one that Kueue holds is shown as suspended wherever it is, without a beginning, unless it runs here', () => {
  const was = statusOf(record({ state: 'delegated' }));
  for (const state of ['queued', 'offering', 'delegated', 'committing'] as const) {
    const { startTime, active } = statusOf(record({ state }), was, true);
    assert.deepEqual([toShow({ state }, true), startTime, active], ['Suspended', undefined, undefined], state);
  }
  assert.equal(toShow({ state: 'running' }, true), 'Running');
  assert.equal(toShow({ state: 'failed' }, true), 'Failed');
});

test('one that never ran began when it was accepted', () => {
  const { startTime, failed, completionTime } = statusOf(record({ state: 'cancelled' }));
  assert.deepEqual([startTime, failed, completionTime], ['2023-11-14T22:13:20Z', 1, undefined]);
});
