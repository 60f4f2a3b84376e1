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

function withReservation(now = () => 0): QuotaReservations {
  const reservations = new QuotaReservations(now);
  reservations.add('ns/cows-1', 'oscar-cq-alice', CORE);
  return reservations;
}

test('quota reservations: one counts until its Workload has its quota and the ClusterQueue is newer', () => {
  const reservations = withReservation();
  assert.deepEqual(reservations.reservedIn(queue('100')), CORE);
  reservations.onWorkload(workload('cows-1', '99', 'False'));
  assert.deepEqual(reservations.reservedIn(queue('101')), CORE);
  reservations.onWorkload(workload('cows-1', '102', 'True'));
  assert.deepEqual(reservations.reservedIn(queue('101')), CORE);
  // Admission, run and end do not change the quota.
  reservations.onWorkload(workload('cows-1', '105', 'True'));
  assert.deepEqual(reservations.reservedIn(queue('103')), NOTHING);
  assert.deepEqual(reservations.reservedIn(queue('101')), NOTHING);
});

test('quota reservations: those of one queue are added up', () => {
  const reservations = withReservation();
  reservations.add('ns/cows-2', 'oscar-cq-alice', { cpu: 500, memory: 7, gpu: 1 });
  reservations.add('ns/dogs-1', 'oscar-cq-bob', CORE);
  assert.deepEqual(reservations.reservedIn(queue('1')), { cpu: 1500, memory: 7, gpu: 1 });
});

test('quota reservations: a released one does not count', () => {
  const reservations = withReservation();
  reservations.release('ns/cows-1');
  assert.deepEqual(reservations.reservedIn(queue('1')), NOTHING);
});

test('quota reservations: the Workload of another Job has no effect', () => {
  const reservations = withReservation();
  reservations.onWorkload(workload('cows-2', '2', 'True'));
  reservations.onWorkload(workload('cows-1', '2', 'True', 'elsewhere'));
  assert.deepEqual(reservations.reservedIn(queue('3')), CORE);
});

test('quota reservations: one that Kueue never counts expires', () => {
  let now = 0;
  const reservations = withReservation(() => now);
  now = 20_000;
  assert.deepEqual(reservations.reservedIn(queue('1')), CORE);
  now = 20_001;
  assert.deepEqual(reservations.reservedIn(queue('1')), NOTHING);
});
