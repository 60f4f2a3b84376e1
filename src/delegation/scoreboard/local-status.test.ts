import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Version } from '../../lib/version.ts';
import type { JobRecord } from '../../model/job/index.ts';
import { sampleJob, sampleProgress } from '../../ports/conformance/sample-job.ts';
import { LocalDurations } from './local-status.ts';

const ended = (
  seconds: number,
  { place = 'here', ...more }: Partial<JobRecord> & { place?: string } = {},
): JobRecord => ({
  ...sampleJob('1'),
  ...sampleProgress('succeeded'),
  attempts: [{ name: 'x', epoch: 1, place, startedAt: 1_000, finishedAt: 1_000 + seconds * 1_000 }],
  eventBytes: 0,
  version: '1' as Version,
  ...more,
});

test('own durations: a moving average of jobs that ran here', () => {
  const durations = new LocalDurations('here');
  assert.equal(durations.mean, undefined);
  durations.finished(ended(10));
  durations.finished(ended(20, { state: 'failed' }));
  assert.equal(durations.mean, 12);
});

test('own durations: delegated, cancelled and never started jobs and synchronous calls do not count', () => {
  const durations = new LocalDurations('here');
  durations.finished(ended(10, { place: 'b' }));
  durations.finished(ended(10, { state: 'cancelled' }));
  durations.finished(ended(10, { attempts: [] }));
  durations.finished(ended(10, { trigger: 'run' }));
  assert.equal(durations.mean, undefined);
});
