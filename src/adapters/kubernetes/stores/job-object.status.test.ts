import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Version } from '../../../lib/version.ts';
import { JOB_STATES, type JobProgress, type JobRecord } from '../../../model/job/index.ts';
import { EPOCH, sampleJob, sampleProgress } from '../../../ports/conformance/sample-job.ts';
import { readShownState, stateToShow, toJobStatus } from './job-object.ts';

const record = (known: Partial<JobProgress>): JobRecord => ({
  ...sampleJob('a'),
  ...sampleProgress('accepted', known),
  eventBytes: 0,
  version: 'v' as Version,
});

test('job status: the shown state is read back as written, whatever the previous status was', () => {
  for (const before of JOB_STATES) {
    const was = toJobStatus(record({ state: before, startedAt: EPOCH }));
    for (const state of JOB_STATES) {
      assert.equal(readShownState(toJobStatus(record({ state }), was)), stateToShow({ state }), `${before} → ${state}`);
    }
  }
  assert.equal(readShownState(undefined), 'nothing');
});

test('job status: a start time never changes, and no end is before it', () => {
  const running = toJobStatus(record({ state: 'running', startedAt: EPOCH + 60_000 }));
  assert.equal(running.startTime, '2023-11-14T22:14:20Z');
  const ended = toJobStatus(record({ state: 'succeeded', startedAt: EPOCH, finishedAt: EPOCH + 1_000 }), running);
  assert.equal(ended.startTime, running.startTime);
  assert.equal(ended.completionTime, running.startTime);
  const queued = toJobStatus(record({ state: 'queued' }), running);
  assert.equal(queued.startTime, running.startTime);
});

test('job status: a Job that Kueue suspends is shown as suspended without a start time, unless it runs in this cluster', () => {
  const was = toJobStatus(record({ state: 'delegated' }));
  for (const state of ['queued', 'offering', 'delegated', 'committing'] as const) {
    const { startTime, active } = toJobStatus(record({ state }), was, true);
    assert.deepEqual([stateToShow({ state }, true), startTime, active], ['Suspended', undefined, undefined], state);
  }
  assert.equal(stateToShow({ state: 'running' }, true), 'Running');
  assert.equal(stateToShow({ state: 'failed' }, true), 'Failed');
});

test('job status: the start time of a job that never ran is when it was accepted', () => {
  const { startTime, failed, completionTime } = toJobStatus(record({ state: 'cancelled' }));
  assert.deepEqual([startTime, failed, completionTime], ['2023-11-14T22:13:20Z', 1, undefined]);
});
