import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusterQueueNames, isQueued, localQueueName, sanitiseUid } from './objects.ts';

const uids = [
  { name: 'a plain uid is the name', uid: 'alice', first: 'oscar-cq-alice' },
  { name: 'letters that no name has become hyphens', uid: 'A.b_C@egi.eu', first: 'oscar-cq-a-b-c-egi-eu' },
  { name: 'one of such letters alone is still a user', uid: '@@', first: 'oscar-cq-user' },
  { name: 'a long one is cut', uid: 'a'.repeat(80), first: `oscar-cq-${'a'.repeat(54)}` },
  { name: 'and does not end with a hyphen', uid: `${'a'.repeat(53)}@egi.eu`, first: `oscar-cq-${'a'.repeat(53)}` },
];
for (const { name, uid, first } of uids) test(name, () => assert.equal(clusterQueueNames(uid)[0], first));

test('two users who would share a name have others of their own behind it', () => {
  const [one, two] = [clusterQueueNames('a.b'), clusterQueueNames('a-b')];
  assert.equal(one[0], two[0]);
  assert.equal(new Set([...one, ...two]).size, 5);
  for (const name of [...one, ...clusterQueueNames('x'.repeat(200))]) {
    assert.ok(name.length <= 63, name);
    assert.match(name, /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/);
  }
});

test('a label takes what is left of a uid', () => assert.equal(sanitiseUid(`-${'A'.repeat(70)}`), 'a'.repeat(62)));

test('the queue of a service with a long name is named in a label too, and is its own', () => {
  assert.equal(localQueueName('cows'), 'oscar-lq-cows');
  const [one, two] = [localQueueName(`${'a'.repeat(60)}-1`), localQueueName(`${'a'.repeat(60)}-2`)];
  assert.notEqual(one, two);
  assert.equal(one.length, 63);
});

const services = [
  { name: 'jobs of users wait', owner: 'alice', namespace: 'oscar-svc-alice', queued: true },
  { name: 'those of the administrator do not', owner: 'cluster_admin', namespace: 'oscar-svc', queued: false },
  { name: 'nor those in the administrator’s namespace', owner: 'alice', namespace: 'oscar-svc', queued: false },
];
for (const { name, queued, ...service } of services)
  test(name, () => assert.equal(isQueued(service, 'oscar-svc'), queued));
