import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Version } from '../../lib/version.ts';
import type { JobRecord, JobState } from '../../model/job/index.ts';
import { EPOCH, sampleJob, sampleProgress } from '../../ports/conformance/sample-job.ts';
import { toSpans, toTraceparent } from './spans.ts';

function ended(states: readonly JobState[], known: Partial<JobRecord> = {}): JobRecord {
  const timeline = states.map((state, index) => ({
    state,
    at: EPOCH + index * 1_000,
    reason: `To-${state}`,
    message: `it is ${state}`,
    place: state === 'delegated' ? 'b' : 'a',
  }));
  const state = states.at(-1) ?? 'accepted';
  return { ...sampleJob('1'), ...sampleProgress(state), timeline, eventBytes: 0, version: 'v' as Version, ...known };
}

const DELEGATED: readonly JobState[] = ['accepted', 'queued', 'offering', 'delegated', 'committing', 'succeeded'];

test('spans: a job is one span from acceptance to end, with a child for each step', () => {
  const [whole, ...steps] = toSpans(ended(DELEGATED));
  assert.equal(whole?.start, EPOCH);
  assert.equal(whole?.end, EPOCH + 5_000);
  assert.deepEqual(
    steps.map(({ name, start, end }) => [name, start - EPOCH, end - EPOCH]),
    [
      ['wait', 1_000, 2_000],
      ['offer', 2_000, 3_000],
      ['delegate', 3_000, 4_000],
      ['commit', 4_000, 5_000],
    ],
  );
  assert.ok(steps.every(({ parent, trace }) => parent === whole?.id && trace === whole?.trace));
  assert.equal(steps[2]?.attributes['oscar.cluster'], 'b');
});

test('spans: the spans of a target belong to the trace of the origin', () => {
  const [origin] = toSpans(ended(DELEGATED));
  const job = { service: 'cow', id: 'cow-1' };
  const taken = { uid: 'u', member: 'b/calf', job, epoch: 2, payload: '' };
  const attempt = ended(['accepted', 'queued', 'running', 'succeeded'], { service: 'calf', id: 'calf-x', taken });
  const [there, ...steps] = toSpans(attempt);
  assert.equal(there?.trace, origin?.trace);
  assert.equal(there?.parent, origin?.id);
  assert.equal(there?.attributes['oscar.job'], 'cow-1');
  assert.ok(steps.every(({ parent }) => parent === there?.id));
});

test('spans: ids are unique and valid in OpenTelemetry', () => {
  const spans = toSpans(
    ended([...DELEGATED.slice(0, 4), 'queued', 'offering', 'delegated', 'committing', 'succeeded']),
  );
  assert.equal(new Set(spans.map(({ id }) => id)).size, spans.length);
  for (const { id, trace } of spans) {
    assert.match(id, /^[0-9a-f]{16}$/);
    assert.match(trace, /^[0-9a-f]{32}$/);
  }
});

test('spans: a failed job has its reason', () => {
  assert.equal(toSpans(ended(['accepted', 'queued', 'running', 'failed']))[0]?.problem, 'To-failed: it is failed');
  assert.equal(toSpans(ended(DELEGATED))[0]?.problem, undefined);
});

test('spans: the traceparent names the span of the job', () => {
  const [whole] = toSpans(ended(DELEGATED));
  assert.equal(toTraceparent({ service: 'cow', id: 'cow-1' }), `00-${whole?.trace}-${whole?.id}-01`);
});
