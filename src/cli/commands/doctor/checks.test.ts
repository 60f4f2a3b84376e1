import assert from 'node:assert/strict';
import { test } from 'node:test';
import { at, BEGAN, decision, toldJob } from '../jobs/told-job.fixture.ts';
import type { SeenMember } from '../seen.ts';
import { clock, events, queues } from './cluster-checks.ts';
import { memberChecks } from './member-checks.ts';

const member = (cluster_id: string, more: Partial<SeenMember> = {}): SeenMember => ({
  type: 'oscar',
  cluster_id,
  service_name: 'cow',
  priority: 0,
  state: 'ready',
  ...more,
});

const said = (
  replicas: readonly SeenMember[],
  jobs = [toldJob()],
  conditions: { type: string; reason: string }[] = [],
) =>
  memberChecks('cow', { topology: 'mesh', replicas, conditions }, jobs, BEGAN + 60_000).map(
    ({ where, what, ok, said: text }) => `${where} ${what} ${ok ? 'ok' : 'NOT'}: ${text}`,
  );

test('a member that is ready and has done a job is fine', () => {
  const job = toldJob({ attempts: [{ place: 'a', started_at: at(0), finished_at: at(1) }] });
  assert.deepEqual(said([member('a')], [job]), [
    'cow grant ok: nothing is wrong with it',
    'a/cow member ok: ready',
    'a/cow storage ok: it read a file and wrote its results 60 s ago',
  ]);
});

test('a member that is away, and one that cannot read files, are told with what to do', () => {
  const refusal = 'cluster "b" cannot read its input';
  const job = toldJob({ decisions: [decision('a/cow', [{ member: 'b/cow', refusal }])] });
  const lines = said([member('a', { state: 'unreachable', reason: 'no answer' }), member('b')], [job]);
  assert.match(lines[1] ?? '', /^a\/cow member NOT: unreachable: no answer; is that manager up/);
  assert.match(lines[2] ?? '', /^a\/cow storage ok: not tried so far/);
  assert.match(lines[4] ?? '', /^b\/cow storage NOT: 60 s ago: .*cannot read its input; .*MINIO_PUBLIC_ENDPOINT/);
});

test('what the owner has to see to is not fine', () => {
  const lines = said([member('a')], [], [{ type: 'CredentialsExpired', reason: 'the refresh token has expired' }]);
  assert.equal(lines[0], 'cow grant NOT: CredentialsExpired: the refresh token has expired');
});

test('an endpoint is not asked', () => {
  const lines = said([member('', { type: 'endpoint', url: 'https://other.example/f' })]);
  assert.equal(lines[1], 'https://other.example/f member ok: an endpoint is not asked how it is');
  assert.equal(lines.length, 2);
});

test('a store that does not report new objects is told to its administrator, with what to set', () => {
  const trouble = { problem: 'it does not report', set: ['A=on', 'B=<secret>'] };
  const [check] = events('a', { object_store_events: trouble });
  assert.deepEqual([check?.what, check?.ok, check?.said], ['events', false, 'it does not report: A=on B=<secret>']);
  assert.deepEqual(events('a', {}), []);
});

test('that nobody lets jobs of users in is said', () => {
  const [check] = queues('a', { queues: { problem: 'this cluster has no Kueue' } });
  assert.match(check?.said ?? '', /^services of users are not made: this cluster has no Kueue$/);
  assert.deepEqual(queues('a', {}), []);
});

const clocks = [
  { name: 'a clock that goes as ours is fine', off: 0, ok: true },
  { name: 'a second means nothing', off: -1_000, ok: true },
  { name: 'one that is ahead is told', off: 90_000, ok: false, says: /90 s ahead of this machine/ },
  { name: 'one that is behind is told', off: -600_000, ok: false, says: /10 min behind this machine/ },
];
for (const { name, off, ok, says = /./ } of clocks) {
  test(name, () => {
    const date = new Date(BEGAN + 500 + off).toUTCString();
    const found = clock('a', { date, sentAt: BEGAN, answeredAt: BEGAN + 1_000 });
    assert.equal(found.ok, ok);
    assert.match(found.said, says);
  });
}
