import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { User } from '../../identity/index.ts';
import type { Version } from '../../lib/version.ts';
import type { JobRecord } from '../../model/job/index.ts';
import { goJobView, summarizeJob, viewJob } from './view.ts';

const user = (uid: string): User => ({ kind: 'user', uid, name: uid, groups: [], operator: false });
const at = Date.UTC(2026, 10, 16, 2, 0, 0, 250);

const waiting: JobRecord = {
  service: 'demo',
  id: 'demo-1',
  serviceUid: 'uid',
  owner: 'alice',
  principal: 'alice',
  invoker: 'bob',
  trigger: 'storage',
  byToken: false,
  demand: { cpu: 1, memory: 1, gpu: 0 },
  acceptedAt: at,
  object: { bucket: 'in', key: 'a.txt', modifiedAt: at },
  state: 'queued',
  message: 'waits for room',
  epoch: 0,
  timeline: [{ state: 'accepted', at, reason: 'Accepted', message: 'the job was accepted', place: 'here' }],
  attempts: [],
  decisions: [],
  eventBytes: 2,
  version: 'v' as Version,
};

const failed: JobRecord = {
  ...waiting,
  state: 'failed',
  message: 'exit code 3',
  startedAt: at + 1000,
  finishedAt: at + 2000,
  exitCode: 3,
  attempts: [{ name: 'demo-1', epoch: 1, place: 'here', startedAt: at + 1000, finishedAt: at + 2000, exitCode: 3 }],
  decisions: [{ at, policy: 'static', chosen: 'b', candidates: [{ member: 'b', score: 1 }] }],
};

test('view: a queued job has no start and finish times', () => {
  assert.deepEqual(viewJob(waiting, { kind: 'admin' }), {
    id: 'demo-1',
    service: 'demo',
    state: 'queued',
    phase: 'Pending',
    message: 'waits for room',
    trigger: 'storage',
    invoker: 'bob',
    object: { bucket: 'in', key: 'a.txt' },
    accepted_at: '2026-11-16T02:00:00.250Z',
    attempts: [],
    decisions: [],
    timeline: [
      {
        state: 'accepted',
        at: '2026-11-16T02:00:00.250Z',
        reason: 'Accepted',
        message: 'the job was accepted',
        place: 'here',
      },
    ],
  });
});

test('view: an ended job has its times, outcome and decisions', () => {
  const view = viewJob(failed, { kind: 'admin' });
  const course = { started_at: '2026-11-16T02:00:01.250Z', finished_at: '2026-11-16T02:00:02.250Z', exit_code: 3 };
  const { started_at, finished_at, exit_code } = view;
  assert.deepEqual({ started_at, finished_at, exit_code }, course);
  assert.deepEqual(view.attempts, [{ name: 'demo-1', epoch: 1, place: 'here', ...course }]);
  assert.deepEqual(view.decisions, [
    { at: '2026-11-16T02:00:00.250Z', policy: 'static', chosen: 'b', candidates: [{ member: 'b', score: 1 }] },
  ]);
});

test('view: a job is cancelling until it has ended', () => {
  const cancelRequested = { at, reason: 'it was cancelled' };
  const seen = (state: JobRecord['state']) =>
    summarizeJob({ ...waiting, state, cancelRequested }, { kind: 'admin' }).cancelling;
  assert.deepEqual([seen('running'), seen('cancelled')], [true, undefined]);
});

describe('view: invoker', () => {
  const cases: [string, string, string | undefined][] = [
    ['is shown to the owner of the service', 'alice', 'bob'],
    ['is shown to themselves', 'bob', 'bob'],
    ['is not shown to others', 'carol', undefined],
  ];
  for (const [name, viewer, invoker] of cases) {
    test(name, () => assert.equal(summarizeJob(waiting, user(viewer)).invoker, invoker));
  }

  test('is not shown if unknown', () => {
    assert.ok(!('invoker' in summarizeJob({ ...waiting, invoker: '' }, { kind: 'admin' })));
  });
});

test('view: the Go form has only text, with whole seconds', () => {
  assert.deepEqual(goJobView(waiting), { status: 'Pending', creation_time: '2026-11-16T02:00:00Z' });
  assert.deepEqual(goJobView(failed), {
    status: 'Failed',
    creation_time: '2026-11-16T02:00:00Z',
    start_time: '2026-11-16T02:00:01Z',
    finish_time: '2026-11-16T02:00:02Z',
  });
});
