import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { attemptName, hostedAttemptName } from './jobs.ts';

const UID = '5b0c9b0e-6f5c-4d0e-9d8f-2f3a1c7e4b6a';
const JOB = { service: 'cow', id: 'cow-0d9e7a52-1c36-4c6f-8f0e-0c7c2a3a9b11' };
const name = (
  changes: Partial<{ uid: string; member: string; job: typeof JOB; epoch: number; service: string }> = {},
) =>
  hostedAttemptName(
    changes.uid ?? UID,
    changes.member ?? 'b/cow',
    changes.job ?? JOB,
    changes.epoch ?? 1,
    changes.service ?? 'cow',
  );

test('attempt name: it never changes between versions', () => {
  assert.equal(name(), 'cow-a2ae1427-0085-5c49-b425-e2330a10a680');
  const job = { ...JOB, serviceUid: UID };
  assert.equal(attemptName(job, 1), JOB.id);
  assert.equal(attemptName(job, 2), 'cow-0d9e7a52-1c3-e47322c1-0731-5229-8e06-4407c53878ee');
  assert.equal(attemptName({ ...job, delegatedFrom: 'a' }, 1), 'cow-5ea205b2-9df3-5eeb-9c5c-5b3297b4d2a7');
});

test('attempt name: for ids that callers chose, it differs between services and epochs', () => {
  for (const chosen of [{ delegatedFrom: '' }, { openedBy: 'b/cow' }]) {
    const job = { ...JOB, serviceUid: UID, ...chosen };
    const names = [attemptName(job, 1), attemptName(job, 2), attemptName({ ...job, serviceUid: 'another' }, 1)];
    assert.equal(new Set([JOB.id, ...names]).size, 4);
    assert.match(names[0] ?? '', /^cow-/);
  }
});

test('attempt name: different offers give different hosted names', () => {
  const others = [
    name({ uid: 'another' }),
    name({ member: 'c/cow' }),
    name({ job: { ...JOB, service: 'calf' } }),
    name({ job: { ...JOB, id: `${JOB.id}x` } }),
    name({ epoch: 2 }),
  ];
  assert.equal(new Set([name(), ...others]).size, others.length + 1);
});

test('attempt name: it begins with the service, and is a legal Kubernetes name', () => {
  assert.match(name({ service: 'a-service-with---a-long-name' }), /^a-service-with-[0-9a-f]{8}-/);
  const services = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$/);
  fc.assert(
    fc.property(services, fc.nat(), (service, epoch) => {
      assert.match(name({ service, epoch }), /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/);
    }),
  );
});
