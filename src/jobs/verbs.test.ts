import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { User } from '../identity/index.ts';
import { eventually } from '../ports/conformance/eventually.ts';
import type { ServiceRecord } from '../ports/index.ts';
import { invokeService } from './intake/invoke.ts';
import { submitEvent } from './intake/storage-events.ts';
import { submitJob } from './intake/submit.ts';
import { ALICE, BOB, openJobs, type TestJobs } from './jobs.fixture.ts';
import { changeJob } from './jobs.ts';
import { cancelJob, expireJobs, removeJob, removeJobs, removeServiceJobs } from './scheduler/end.ts';
import { findJob, listJobs } from './views/find.ts';

const user = (uid: string): User => ({ kind: 'user', uid, name: uid, groups: [], operator: false });
const [alice, bob, carol] = [user(ALICE), user(BOB), user('carol')];
const admin = { kind: 'admin' } as const;
const token = (service: string) => ({ kind: 'service-token', service }) as const;
const never = new AbortController().signal;
const waiting = { timeout: 30_000, left: never };

const SHARED = { visibility: 'restricted', allowed_users: [BOB] };
const INPUT = { input: [{ storage_provider: 'minio.default', path: 'inbox/uploads' }] };

const objectEvent = (key: string, modifiedAt = 5) => ({
  bucket: 'inbox',
  key,
  eTag: 'e',
  bytes: 1,
  modifiedAt,
  principal: BOB,
});

async function finished(jobs: TestJobs, service: ServiceRecord, as: User = alice) {
  const key = await submitJob(as, service, Buffer.from('x'), 'job', jobs);
  await eventually(() => assert.ok(jobs.runner.attempts.has(key.id)));
  jobs.runner.end(key.id);
  await jobs.until(key, 'succeeded');
  return key;
}

test('submit: the caller decides whose rights a job has (S3, S4)', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo', { ...SHARED, ...INPUT });
  const byBob = await submitJob(bob, service, Buffer.from('{"principalId":"root"}'), 'job', jobs);
  const byToken = await submitJob(token('demo'), service, Buffer.from('{}'), 'job', jobs);
  await submitEvent(objectEvent('uploads/a'), Buffer.from('{}'), jobs);
  const records = await Array.fromAsync(jobs.store.unfinished());
  const rights = new Map(records.map((record) => [record.id, [record.principal, record.invoker, record.trigger]]));
  assert.deepEqual(rights.get(byBob.id), [BOB, BOB, 'job']);
  assert.deepEqual(rights.get(byToken.id), [ALICE, '', 'job']);
  assert.deepEqual([...rights.values()].at(-1), [ALICE, BOB, 'storage']);
});

test('submit: a repeated event is one job, over any route', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo', INPUT);
  await jobs.service('other', { input: [{ storage_provider: 'minio.default', path: 'inbox/elsewhere' }] });
  const body = {
    Records: [
      {
        eventSource: 'minio:s3',
        eventName: 's3:ObjectCreated:Put',
        s3: {
          bucket: { name: 'inbox' },
          object: { key: 'uploads/a', size: 1, eTag: 'e', sequencer: '4C4B40'.padStart(16, '0') },
        },
      },
    ],
  };
  assert.equal(await submitEvent(objectEvent('uploads/a'), Buffer.from('{}'), jobs), 1);
  await submitEvent(objectEvent('uploads/a'), Buffer.from('{}'), jobs);
  await submitJob(token('demo'), service, Buffer.from(JSON.stringify(body)), 'job', jobs);
  assert.equal((await jobs.store.list({ service: 'demo', limit: 10 })).items.length, 1);
  await submitEvent(objectEvent('uploads/a', 6), Buffer.from('{}'), jobs);
  await submitJob(alice, service, Buffer.from(JSON.stringify(body)), 'job', jobs);
  assert.equal((await jobs.store.list({ service: 'demo', limit: 10 })).items.length, 3);
  assert.equal((await jobs.store.list({ service: 'other', limit: 10 })).items.length, 0);
});

test('submit: an event that is too large is rejected, and no job is stored', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo');
  await assert.rejects(submitJob(alice, service, Buffer.alloc(1025), 'job', jobs), { code: 'event-too-large' });
  assert.deepEqual(await Array.fromAsync(jobs.store.unfinished()), []);
});

test("views: users see jobs that they caused, the owner also jobs with the owner's rights, the administrator all", async () => {
  await using jobs = await openJobs(10_000);
  const service = await jobs.service('demo', { ...SHARED, ...INPUT });
  const ofAlice = await submitJob(alice, service, Buffer.from('1'), 'job', jobs);
  const ofBob = await submitJob(bob, service, Buffer.from('2'), 'job', jobs);
  const ofToken = await submitJob(token('demo'), service, Buffer.from('3'), 'job', jobs);
  const seen = async (who: User | typeof admin) =>
    (await listJobs(who, 'demo', { limit: 10 }, jobs)).items.map(({ id }) => id).toSorted();
  assert.deepEqual(await seen(admin), [ofAlice.id, ofBob.id, ofToken.id].toSorted());
  assert.deepEqual(await seen(alice), [ofAlice.id, ofToken.id].toSorted());
  assert.deepEqual(await seen(bob), [ofBob.id]);
  await assert.rejects(seen(carol), { code: 'not-found' });
  await assert.rejects(findJob(bob, 'demo', ofAlice.id, jobs), { code: 'job-not-found' });
  assert.equal((await findJob(bob, 'demo', ofBob.id, jobs)).id, ofBob.id);
});

test('cancel: other users may cancel their own jobs, the owner all jobs (S20)', async () => {
  await using jobs = await openJobs(10_000);
  const service = await jobs.service('demo', SHARED);
  const ofAlice = await submitJob(alice, service, Buffer.from('1'), 'job', jobs);
  const ofBob = await submitJob(bob, service, Buffer.from('2'), 'job', jobs);
  await assert.rejects(cancelJob(bob, 'demo', ofAlice.id, jobs), { code: 'job-not-found' });
  await assert.rejects(removeJob(carol, 'demo', ofBob.id, jobs), { code: 'not-found' });
  await removeJobs(bob, 'demo', true, jobs);
  assert.equal(await jobs.store.get(ofBob), undefined);
  assert.ok(await jobs.store.get(ofAlice));
  await cancelJob(alice, 'demo', ofAlice.id, jobs);
  await jobs.until(ofAlice, 'cancelled');
  await assert.rejects(cancelJob(alice, 'demo', ofAlice.id, jobs), { code: 'job-finished' });
});

test('remove: without all, only succeeded jobs are removed, with their logs', async () => {
  await using jobs = await openJobs(1000);
  const service = await jobs.service('demo');
  const good = await finished(jobs, service);
  const running = await submitJob(alice, service, Buffer.from('x'), 'job', jobs);
  await eventually(() => assert.ok(jobs.runner.attempts.has(running.id)));
  await removeJobs(alice, 'demo', false, jobs);
  assert.equal(await jobs.store.get(good), undefined);
  assert.deepEqual(await jobs.runner.list(), [running.id]);
  await removeJobs(alice, 'demo', true, jobs);
  assert.equal(await jobs.store.get(running), undefined);
  assert.deepEqual(await jobs.runner.list(), []);
});

test('remove: a committing job is neither cancelled nor removed, all others are', async () => {
  await using jobs = await openJobs(1000);
  const service = await jobs.service('demo');
  const good = await finished(jobs, service);
  const message = 'writing the results';
  const writing = await submitJob(alice, service, Buffer.from('x'), 'job', jobs);
  await eventually(() => assert.ok(jobs.runner.attempts.has(writing.id)));
  await changeJob(writing, jobs.store, () => ({ state: 'committing', message }));
  const refusal = { code: 'job-finished', message: /can be removed when it has ended: writing the results/ };
  await assert.rejects(cancelJob(alice, 'demo', writing.id, jobs), refusal);
  await assert.rejects(removeJob(alice, 'demo', writing.id, jobs), refusal);
  await assert.rejects(removeJobs(alice, 'demo', true, jobs), refusal);
  assert.equal(await jobs.store.get(good), undefined);
  assert.equal((await jobs.store.get(writing))?.state, 'committing');
});

test('remove: the jobs of a removed service are removed, also running ones', async () => {
  await using jobs = await openJobs(1000);
  const service = await jobs.service('demo');
  const good = await finished(jobs, service);
  const running = await submitJob(alice, service, Buffer.from('x'), 'job', jobs);
  const queued = await submitJob(alice, service, Buffer.from('x'), 'job', jobs);
  await eventually(() => assert.ok(jobs.runner.attempts.has(running.id)));
  await removeServiceJobs(service.service.uid, jobs);
  for (const key of [good, running, queued]) assert.equal(await jobs.store.get(key), undefined);
  await eventually(async () => assert.deepEqual(await jobs.runner.list(), []));
  await eventually(() => assert.equal(jobs.capacity.taken, 0));
});

test('expiry: old jobs are removed with their logs', async () => {
  await using jobs = await openJobs();
  const key = await finished(jobs, await jobs.service('demo'));
  assert.equal(await expireJobs(Date.now() - 60_000, jobs), 0);
  assert.equal(await expireJobs(Date.now() + 60_000, jobs), 1);
  assert.equal(await jobs.store.get(key), undefined);
  assert.deepEqual(await jobs.runner.list(), []);
});

test('invoke: a synchronous call is answered with the output of the script', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo');
  const call = invokeService(bob, service, Buffer.from('x'), waiting, jobs);
  await eventually(() => assert.equal(jobs.runner.attempts.size, 1));
  const [name = ''] = jobs.runner.attempts.keys();
  assert.equal(jobs.runner.attempts.get(name)?.attempt.answer, true);
  jobs.runner.end(name);
  const { answer, succeeded } = await call;
  assert.equal(await text(answer), `answer of ${name}`);
  assert.equal(succeeded, true);
});

test('invoke: a failed script is an answer, a script that could not start is an error', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo');
  const outcome = async (reason: 'ScriptFailed' | 'InputFailed' | 'Timeout') => {
    const call = invokeService(alice, service, Buffer.from('x'), waiting, jobs);
    await eventually(() => assert.equal(jobs.runner.attempts.size, 1));
    const [name = ''] = jobs.runner.attempts.keys();
    jobs.runner.end(name, { outcome: 'failed', reason, exitCode: 4 });
    try {
      return await call;
    } finally {
      await jobs.runner.forget(name);
    }
  };
  assert.deepEqual([(await outcome('ScriptFailed')).succeeded, (await outcome('ScriptFailed')).exitCode], [false, 4]);
  await assert.rejects(outcome('InputFailed'), { code: 'run-failed' });
  await assert.rejects(outcome('Timeout'), { code: 'run-timeout' });
});

test('invoke: when the caller disconnects, the script is stopped', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo');
  const left = new AbortController();
  const call = invokeService(alice, service, Buffer.from('x'), { timeout: 30_000, left: left.signal }, jobs);
  await eventually(() => assert.equal(jobs.runner.attempts.size, 1));
  left.abort();
  await assert.rejects(call, { code: 'run-timeout' });
  assert.deepEqual(
    [...jobs.runner.attempts.values()].map(({ stopped }) => stopped),
    ['caller-left'],
  );
});

test('invoke: a call that no node could run is rejected at once', async () => {
  await using jobs = await openJobs(1000);
  const service = await jobs.service('demo', { cpu: '8' });
  await assert.rejects(invokeService(alice, service, Buffer.from('x'), waiting, jobs), { code: 'no-room' });
  assert.deepEqual(await Array.fromAsync(jobs.store.unfinished()), []);
});
