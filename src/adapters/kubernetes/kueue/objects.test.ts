import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusterQueueNames, isQueued, localQueueName, sanitiseUid } from './objects.ts';

const uids = [
  { name: 'a plain uid is the name', uid: 'alice', first: 'oscar-cq-alice' },
  { name: 'invalid characters become hyphens', uid: 'A.b_C@egi.eu', first: 'oscar-cq-a-b-c-egi-eu' },
  { name: 'a uid of invalid characters only becomes "user"', uid: '@@', first: 'oscar-cq-user' },
  { name: 'a long uid is truncated', uid: 'a'.repeat(80), first: `oscar-cq-${'a'.repeat(54)}` },
  {
    name: 'a truncated name does not end with a hyphen',
    uid: `${'a'.repeat(53)}@egi.eu`,
    first: `oscar-cq-${'a'.repeat(53)}`,
  },
];
for (const { name, uid, first } of uids)
  test(`ClusterQueue name: ${name}`, () => assert.equal(clusterQueueNames(uid)[0], first));

test('ClusterQueue name: two users with the same first name have different other names', () => {
  const [one, two] = [clusterQueueNames('a.b'), clusterQueueNames('a-b')];
  assert.equal(one[0], two[0]);
  assert.equal(new Set([...one, ...two]).size, 5);
  for (const name of [...one, ...clusterQueueNames('x'.repeat(200))]) {
    assert.ok(name.length <= 63, name);
    assert.match(name, /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/);
  }
});

test('owner label: a uid is reduced to a valid label value', () =>
  assert.equal(sanitiseUid(`-${'A'.repeat(70)}`), 'a'.repeat(62)));

test('LocalQueue name: long service names give unique names that fit into a label', () => {
  assert.equal(localQueueName('cows'), 'oscar-lq-cows');
  const [one, two] = [localQueueName(`${'a'.repeat(60)}-1`), localQueueName(`${'a'.repeat(60)}-2`)];
  assert.notEqual(one, two);
  assert.equal(one.length, 63);
});

const services = [
  { name: 'jobs of users are queued', owner: 'alice', namespace: 'oscar-svc-alice', queued: true },
  { name: 'jobs of the administrator are not queued', owner: 'cluster_admin', namespace: 'oscar-svc', queued: false },
  {
    name: 'jobs in the administrator’s namespace are not queued',
    owner: 'alice',
    namespace: 'oscar-svc',
    queued: false,
  },
];
for (const { name, queued, ...service } of services)
  test(`Kueue: ${name}`, () => assert.equal(isQueued(service, 'oscar-svc'), queued));
