import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobKey } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { type ServiceRecord, StoreError } from '../../ports/index.ts';
import { submitJob } from '../intake/submit.ts';
import { ALICE, BOB, openJobs, type TestJobs } from '../jobs.fixture.ts';
import { MAX_OVERTAKEN } from './queue.ts';

const user = (uid: string) => ({ kind: 'user', uid, name: uid, groups: [], operator: false }) as const;
const submit = (jobs: TestJobs, service: ServiceRecord, uid = ALICE, trigger: 'job' | 'run' = 'job') =>
  submitJob(user(uid), service, Buffer.from('{}'), trigger, jobs);

test('dispatcher: a job runs when there is room, and its timeline has all states', async () => {
  await using jobs = await openJobs();
  const key = await submit(jobs, await jobs.service('demo'));
  const running = await jobs.until(key, 'running');
  assert.deepEqual(
    running.attempts.map(({ name, epoch }) => [name, epoch]),
    [[key.id, 1]],
  );
  await eventually(() => assert.ok(jobs.runner.attempts.has(key.id)));
  jobs.runner.end(key.id);
  const record = await jobs.until(key, 'succeeded');
  assert.deepEqual(
    record.timeline.map(({ state, reason, place }) => [state, reason, place]),
    [
      ['accepted', 'Accepted', 'here'],
      ['queued', 'Waiting', 'here'],
      ['running', 'Started', 'here'],
      ['succeeded', 'Completed', 'here'],
    ],
  );
  assert.equal(record.exitCode, 0);
  assert.ok(record.startedAt !== undefined && record.finishedAt !== undefined);
  await eventually(() => assert.equal(jobs.capacity.taken, 0));
  assert.deepEqual([...jobs.buckets.issued], []);
});

test('dispatcher: a job without room waits until there is room', async () => {
  await using jobs = await openJobs(1000);
  const service = await jobs.service('demo');
  const [first, second] = [await submit(jobs, service), await submit(jobs, service)];
  await jobs.until(first, 'running');
  assert.equal((await jobs.store.get(second))?.state, 'queued');
  await eventually(() => assert.ok(jobs.runner.attempts.has(first.id)));
  jobs.runner.end(first.id, { outcome: 'failed', reason: 'ScriptFailed', message: 'exit code 3', exitCode: 3 });
  const failed = await jobs.until(first, 'failed');
  assert.equal(failed.exitCode, 3);
  assert.equal(failed.message, 'exit code 3');
  await jobs.until(second, 'running');
});

test('dispatcher: a job that no node could run starts when a large enough node is added', async () => {
  await using jobs = await openJobs(1000);
  const [large, larger] = [await jobs.service('large', { cpu: '8' }), await jobs.service('larger', { cpu: '16' })];
  const [first, second, cancelled] = [await submit(jobs, large), await submit(jobs, larger), await submit(jobs, large)];
  await eventually(async () => assert.match((await jobs.store.get(first))?.message ?? '', /it needs 8000/));
  await jobs.scheduler.cancel(cancelled, 'cancelled');
  jobs.capacity.becomes(8000);
  await jobs.until(first, 'running');
  await eventually(async () => assert.match((await jobs.store.get(second))?.message ?? '', /it needs 16000/));
  assert.deepEqual(
    [(await jobs.store.get(second))?.state, (await jobs.store.get(cancelled))?.state, jobs.scheduler.waiting],
    ['queued', 'cancelled', 0],
  );
});

test('dispatcher: a job that no node could run shows the reason, and blocks no other job', async () => {
  await using jobs = await openJobs(1000);
  const large = await submit(jobs, await jobs.service('large', { cpu: '8' }));
  const small = await submit(jobs, await jobs.service('small'));
  await jobs.until(small, 'running');
  await eventually(async () => assert.match((await jobs.store.get(large))?.message ?? '', /it needs 8000/));
  assert.equal((await jobs.store.get(large))?.state, 'queued');
  await jobs.scheduler.cancel(large, 'cancelled');
  await jobs.until(large, 'cancelled');
});

test('dispatcher: a job for which others leave no room blocks no other job, and runs later', async () => {
  await using jobs = await openJobs(2000);
  const { capacity } = jobs;
  capacity.hold('others', { cpu: 1000, memory: 0, gpu: 0 });
  capacity.inTheWay = 'others';
  const large = await submit(jobs, await jobs.service('large', { cpu: '2' }));
  const small = await jobs.service('small', { cpu: '1' }, BOB);
  for (let i = 0; i <= MAX_OVERTAKEN; i++) {
    const key = await submit(jobs, small, BOB);
    await eventually(() => jobs.runner.end(key.id));
    await jobs.until(key, 'succeeded');
  }
  const last = await submit(jobs, small, BOB);
  await jobs.until(last, 'running');
  await eventually(async () => assert.match((await jobs.store.get(large))?.message ?? '', /what others run/));
  assert.equal(jobs.scheduler.waiting, 0);
  capacity.inTheWay = 'ours';
  capacity.release('others');
  await eventually(() => jobs.runner.end(last.id));
  await jobs.until(large, 'running');
});

test('cancel: a queued job is cancelled at once, a running one when its script has stopped', async () => {
  await using jobs = await openJobs(1000);
  const service = await jobs.service('demo');
  const [runs, waits] = [await submit(jobs, service), await submit(jobs, service)];
  await jobs.until(runs, 'running');
  await jobs.scheduler.cancel(waits, 'cancelled');
  assert.equal((await jobs.store.get(waits))?.state, 'cancelled');
  await jobs.scheduler.cancel(runs, 'cancelled');
  const record = await jobs.until(runs, 'cancelled');
  assert.equal(jobs.runner.attempts.get(runs.id)?.stopped, 'cancelled');
  assert.equal(record.message, 'it was cancelled');
  assert.equal(jobs.runner.attempts.has(waits.id), false);
});

test('cancel: cancelling an ended job changes nothing', async () => {
  await using jobs = await openJobs();
  const key = await submit(jobs, await jobs.service('demo'));
  await eventually(() => assert.ok(jobs.runner.attempts.has(key.id)));
  jobs.runner.end(key.id);
  const before = await jobs.until(key, 'succeeded');
  await jobs.scheduler.cancel(key, 'cancelled');
  assert.deepEqual(await jobs.store.get(key), before);
});

test('recovery: running jobs are resumed and queued jobs started, none twice', async () => {
  await using first = await openJobs(1000);
  const service = await first.service('demo');
  const keys: JobKey[] = [];
  for (let i = 0; i < 3; i++) keys.push(await submit(first, service));
  const [runs, next, last] = keys as [JobKey, JobKey, JobKey];
  await eventually(() => assert.ok(first.runner.attempts.has(runs.id)));

  const jobs = await first.restarted();
  await eventually(() => assert.equal(jobs.runner.attempts.get(runs.id)?.starts, 2));
  assert.equal((await jobs.store.get(runs))?.epoch, 1);
  assert.equal((await jobs.store.get(next))?.state, 'queued');
  for (const key of [runs, next, last]) {
    await eventually(() => assert.ok(jobs.runner.attempts.has(key.id)));
    jobs.runner.end(key.id);
    await jobs.until(key, 'succeeded');
  }
  assert.deepEqual(jobs.problems, []);
  jobs.scheduler.stop();
});

test('recovery: synchronous calls are cancelled after a crash', async () => {
  await using first = await openJobs(1000);
  const service = await first.service('demo');
  const [runs, waits] = [await submit(first, service, ALICE, 'run'), await submit(first, service, ALICE, 'run')];
  await eventually(() => assert.ok(first.runner.attempts.has(runs.id)));
  const jobs = await first.restarted();
  await jobs.until(runs, 'cancelled');
  await jobs.until(waits, 'cancelled');
  assert.equal(jobs.runner.attempts.get(runs.id)?.stopped, 'caller-left');
  jobs.scheduler.stop();
});

test('recovery: a cancel just before the crash is executed', async () => {
  await using first = await openJobs();
  const key = await submit(first, await first.service('demo'));
  await eventually(() => assert.ok(first.runner.attempts.has(key.id)));
  const record = await first.store.get(key);
  assert.ok(record);
  const running = await first.until(key, 'running');
  await eventually(async () => assert.ok((await first.store.get(key))?.startedAt));
  first.scheduler.stop();
  const current = (await first.store.get(key)) ?? running;
  await first.store.update(key, current.version, { cancelRequested: { at: 1, reason: 'enough' } });
  const jobs = await first.restarted();
  assert.equal((await jobs.until(key, 'cancelled')).message, 'enough');
  jobs.scheduler.stop();
});

test('dispatcher: a job whose service was removed or replaced fails with that reason', async () => {
  await using first = await openJobs(1000);
  const service = await first.service('demo');
  const [blocks, key] = [await submit(first, service), await submit(first, service)];
  await eventually(() => assert.ok(first.runner.attempts.has(blocks.id)));
  await first.cluster.services.remove('demo', service.version);
  await first.service('demo');
  first.runner.end(blocks.id);
  const record = await first.until(key, 'failed');
  assert.equal(record.timeline.at(-1)?.reason, 'ServiceRemoved');
});

test('cancel: a job whose attempt cannot be started yet is cancelled, not failed', async () => {
  await using jobs = await openJobs();
  const waits = Promise.withResolvers<void>();
  const calledOff = new StoreError('unavailable', 'the API is away');
  jobs.runner.start = () => waits.promise;
  jobs.runner.stop = async () => waits.reject(calledOff);
  const key = await submit(jobs, await jobs.service('demo'));
  await jobs.until(key, 'running');
  await jobs.scheduler.cancel(key, 'cancelled');
  await jobs.until(key, 'cancelled');
  await eventually(() => assert.equal(jobs.capacity.taken, 0));
});

test('dispatcher: an attempt that cannot be started fails the job with the reason', async () => {
  await using jobs = await openJobs();
  jobs.runner.refuse = new Error('no such place');
  const record = await jobs.until(await submit(jobs, await jobs.service('demo')), 'failed');
  assert.match(record.message, /no such place/);
  await eventually(() => assert.equal(jobs.capacity.taken, 0));
});

test('dispatcher: owners take turns', async () => {
  await using jobs = await openJobs(1000);
  const [ofAlice, ofBob] = [await jobs.service('a', {}, ALICE), await jobs.service('b', {}, BOB)];
  const first = await submit(jobs, ofAlice);
  const keys = [await submit(jobs, ofAlice), await submit(jobs, ofAlice), await submit(jobs, ofBob, BOB)];
  const order: (string | undefined)[] = [];
  let current: JobKey | undefined = first;
  while (current) {
    const { id } = current;
    await eventually(() => assert.ok(jobs.runner.attempts.has(id)));
    jobs.runner.end(id);
    await jobs.until(current, 'succeeded');
    order.push(current.service);
    await eventually(async () => {
      const states = await Promise.all(keys.map((key) => jobs.store.get(key)));
      assert.ok(states.some((record) => record?.state === 'running') || states.every((r) => r?.state === 'succeeded'));
    });
    const states = await Promise.all(keys.map((key) => jobs.store.get(key)));
    current = states.find((record) => record?.state === 'running');
  }
  assert.deepEqual(order, ['a', 'a', 'b', 'a']);
});

test('dispatcher: the next job starts while the results of a script that has ended are uploaded', async () => {
  await using jobs = await openJobs(1000);
  const service = await jobs.service('demo');
  const [first, second] = [await submit(jobs, service), await submit(jobs, service)];
  await eventually(() => assert.ok(jobs.runner.attempts.has(first.id)));
  jobs.runner.see(first.id, { phase: 'uploading', startedAt: Date.now() });
  await jobs.until(second, 'running');
  assert.equal((await jobs.store.get(first))?.state, 'running');
  jobs.runner.end(first.id);
  await jobs.until(first, 'succeeded');
  assert.equal(jobs.capacity.taken, 1000, 'the second job keeps its room');
});
