import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NOTHING } from '../capacity/index.ts';
import { QuotaReservations } from './quota-reservations.ts';

const CORE = { cpu: 1000, memory: 0, gpu: 0 };

/** The figures of a queue in this version of it. */
const queue = (resourceVersion: string, name = 'oscar-cq-alice') => ({
  metadata: { name, uid: name, resourceVersion },
});

const workload = (job: string, resourceVersion: string, reserved: 'True' | 'False', namespace = 'ns') => ({
  metadata: {
    name: `job-${job}`,
    namespace,
    uid: `workload-of-${job}`,
    resourceVersion,
    ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: job, uid: `uid-of-${job}` }],
  },
  spec: {},
  status: { conditions: [{ type: 'QuotaReserved', status: reserved }] },
});

function pledged(now = () => 0): QuotaReservations {
  const pledges = new QuotaReservations(now);
  pledges.add('ns/cows-1', 'oscar-cq-alice', CORE);
  return pledges;
}

test('a pledge counts until its Workload has its quota, and the figures of the queue are newer', () => {
  const pledges = pledged();
  assert.deepEqual(pledges.reservedIn(queue('100')), CORE);
  pledges.onWorkload(workload('cows-1', '99', 'False'));
  assert.deepEqual(pledges.reservedIn(queue('101')), CORE);
  pledges.onWorkload(workload('cows-1', '102', 'True'));
  assert.deepEqual(pledges.reservedIn(queue('101')), CORE);
  // It is let in, runs and ends: that is no other quota.
  pledges.onWorkload(workload('cows-1', '105', 'True'));
  assert.deepEqual(pledges.reservedIn(queue('103')), NOTHING);
  assert.deepEqual(pledges.reservedIn(queue('101')), NOTHING);
});

test('pledges of a queue add up, and no others', () => {
  const pledges = pledged();
  pledges.add('ns/cows-2', 'oscar-cq-alice', { cpu: 500, memory: 7, gpu: 1 });
  pledges.add('ns/dogs-1', 'oscar-cq-bob', CORE);
  assert.deepEqual(pledges.reservedIn(queue('1')), { cpu: 1500, memory: 7, gpu: 1 });
});

test('what is not to come is released', () => {
  const pledges = pledged();
  pledges.release('ns/cows-1');
  assert.deepEqual(pledges.reservedIn(queue('1')), NOTHING);
});

test('the Workload of another Job says nothing of this one', () => {
  const pledges = pledged();
  pledges.onWorkload(workload('cows-2', '2', 'True'));
  pledges.onWorkload(workload('cows-1', '2', 'True', 'elsewhere'));
  assert.deepEqual(pledges.reservedIn(queue('3')), CORE);
});

test('a pledge that Kueue is never seen to count does not last', () => {
  let now = 0;
  const pledges = pledged(() => now);
  now = 20_000;
  assert.deepEqual(pledges.reservedIn(queue('1')), CORE);
  now = 20_001;
  assert.deepEqual(pledges.reservedIn(queue('1')), NOTHING);
});
