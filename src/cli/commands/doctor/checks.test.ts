import assert from 'node:assert/strict';
import { test } from 'node:test';
import { infoChecks } from '../../../model/cluster-checks.ts';
import { aRemoteJob, at, BEGAN, decision } from '../jobs/remote-job.fixture.ts';
import type { RemoteMember } from '../remote-service.ts';
import { CHECK_COLUMNS } from './check.ts';
import { checkClock } from './cluster-checks.ts';
import { memberChecks } from './member-checks.ts';

const member = (cluster_id: string, more: Partial<RemoteMember> = {}): RemoteMember => ({
  type: 'oscar',
  cluster_id,
  service_name: 'cow',
  priority: 0,
  state: 'ready',
  ...more,
});

const said = (
  replicas: readonly RemoteMember[],
  jobs = [aRemoteJob()],
  conditions: { type: string; reason: string }[] = [],
) =>
  memberChecks('cow', { topology: 'mesh', replicas, conditions }, jobs, BEGAN + 60_000).map(
    ({ where, what, ok, said: text }) => `${where} ${what} ${ok ? 'ok' : 'NOT'}: ${text}`,
  );

test('doctor: a ready member with a recent job passes', () => {
  const job = aRemoteJob({ attempts: [{ place: 'a', started_at: at(0), finished_at: at(1) }] });
  assert.deepEqual(said([member('a')], [job]), [
    'cow grant ok: valid',
    'a/cow member ok: ready',
    'a/cow storage ok: read its input and wrote results 60 s ago',
  ]);
});

test('doctor: an unreachable member and one that cannot read its input fail with advice', () => {
  const refusal = 'cluster "b" cannot read its input';
  const job = aRemoteJob({ decisions: [decision('a/cow', [{ member: 'b/cow', refusal }])] });
  const lines = said([member('a', { state: 'unreachable', reason: 'no answer' }), member('b')], [job]);
  assert.match(lines[1] ?? '', /^a\/cow member NOT: unreachable: no answer; is its manager running/);
  assert.match(lines[2] ?? '', /^a\/cow storage ok: not checked: no recent job/);
  assert.match(lines[4] ?? '', /^b\/cow storage NOT: 60 s ago: .*cannot read its input; .*MINIO_PUBLIC_ENDPOINT/);
});

test('doctor: a condition of the grant is a failed check', () => {
  const lines = said([member('a')], [], [{ type: 'CredentialsExpired', reason: 'the refresh token has expired' }]);
  assert.equal(lines[0], 'cow grant NOT: CredentialsExpired: the refresh token has expired');
});

test('doctor: endpoints are not checked', () => {
  const lines = said([member('', { type: 'endpoint', url: 'https://other.example/f' })]);
  assert.equal(lines[1], 'https://other.example/f member ok: not checked: endpoints have no status');
  assert.equal(lines.length, 2);
});

test('doctor: a store without event notifications fails, with the settings it needs', () => {
  const trouble = { problem: 'it does not report', set: ['A=on', 'B=<secret>'] };
  const [check] = infoChecks('a', { object_store_events: trouble });
  assert.deepEqual([check?.what, check?.ok, check?.said], ['events', false, 'it does not report: A=on B=<secret>']);
  assert.deepEqual(infoChecks('a', {}), []);
});

test('doctor: a missing Kueue is reported', () => {
  const [check] = infoChecks('a', { queues: { problem: 'this cluster has no Kueue' } });
  assert.match(check?.said ?? '', /^users cannot create services: this cluster has no Kueue$/);
  assert.deepEqual(infoChecks('a', {}), []);
});

test('doctor: scripts without isolation are a warning, and what the kernel enforces is named', () => {
  const none = { namespaces: false, enforced: [], reason: 'there is no compiler' };
  const [check] = infoChecks('a', { isolation: none });
  assert.match(check?.said ?? '', /scripts are not isolated: .*secrets: there is no compiler$/);
  const [good] = infoChecks('a', { isolation: { namespaces: true, enforced: ['memory', 'cpu'] } });
  assert.match(good?.said ?? '', /namespaces of their own, the kernel enforces memory, cpu, disk is sampled$/);
  assert.deepEqual(infoChecks('a', {}), []);
});

test('doctor: an unchecked audience is a warning, which does not fail', () => {
  const [check] = infoChecks('a', { access_tokens: { problem: 'tokens of every application are accepted' } });
  assert.equal(check?.ok, true);
  const shown = CHECK_COLUMNS.map(({ of }) => check && of(check));
  assert.deepEqual(shown, ['a', 'tokens', 'warning, tokens of every application are accepted']);
  assert.deepEqual(infoChecks('a', {}), []);
});

const clocks = [
  { name: 'doctor: a clock in sync passes', off: 0, ok: true },
  { name: 'doctor: one second of clock skew passes', off: -1_000, ok: true },
  { name: 'doctor: a clock that is ahead fails', off: 90_000, ok: false, says: /90 s ahead of this machine/ },
  { name: 'doctor: a clock that is behind fails', off: -600_000, ok: false, says: /10 min behind this machine/ },
];
for (const { name, off, ok, says = /./ } of clocks) {
  test(name, () => {
    const date = new Date(BEGAN + 500 + off).toUTCString();
    const found = checkClock('a', { date, sentAt: BEGAN, answeredAt: BEGAN + 1_000 });
    assert.equal(found.ok, ok);
    assert.match(found.said, says);
  });
}
