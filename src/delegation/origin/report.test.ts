import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { type JobKey, type JobRecord, jobName } from '../../model/job/index.ts';
import type { Report } from '../../peers/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { idOf, openScene, type Scene } from './origin.fixture.ts';
import { failure } from './scripted-target.fixture.ts';

async function delegatedJob(scene: Scene): Promise<JobKey> {
  scene.fill();
  const key = await scene.submit();
  await eventually(() => assert.equal(scene.target('b').taken.size, 1));
  return key;
}

const isFinal = ({ state }: JobRecord) => ['succeeded', 'failed', 'cancelled'].includes(state);

const success = (scene: Scene, manifest: string): Report => ({
  state: 'succeeded',
  manifest,
  finishedAt: scene.clock.now(),
  exitCode: 0,
  reason: 'Completed',
  message: 'done',
});

test('report: `running` renews the lease', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  scene.clock.pass(30_000);
  await scene.target('b').says({ state: 'running', startedAt: scene.clock.now() - 20_000 });
  const record = await scene.job(key);
  assert.equal(record.placement?.heardAt, scene.clock.now());
  assert.equal(record.startedAt, scene.clock.now() - 20_000);
  assert.equal(record.attempts.at(-1)?.startedAt, record.startedAt);
  assert.equal(record.message, 'the script runs');
});

test('report: times of a target whose clock is ahead are limited to now', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  await scene.target('b').says({ state: 'running', startedAt: scene.clock.now() + 3_600_000 });
  assert.equal((await scene.job(key)).startedAt, scene.clock.now());
});

test('report: a repeated success is accepted and committed once', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  const manifest = await scene.stage(scene.target('b').last, { 'a.txt': 'A' });
  await scene.target('b').says(success(scene, manifest));
  await scene.target('b').says(success(scene, manifest));
  const last = await scene.until(key, isFinal);
  await scene.target('b').says(success(scene, manifest));
  assert.deepEqual(await scene.job(key), last);
  assert.equal(last.timeline.filter(({ state }) => state === 'committing').length, 1);
});

test('report: another manifest for the same epoch is rejected', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  const manifest = await scene.stage(scene.target('b').last, {});
  await scene.target('b').says(success(scene, manifest));
  await assert.rejects(scene.target('b').says(success(scene, 'f'.repeat(64))), { code: 'fenced' });
  await assert.rejects(scene.target('b').says(failure(0)), { code: 'fenced' });
  assert.equal((await scene.until(key, isFinal)).state, 'succeeded');
});

test('report: a repeated failure is accepted, and a success after it is rejected', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  await scene.target('b').says(failure(scene.clock.now()));
  await scene.target('b').says(failure(scene.clock.now()));
  await assert.rejects(scene.target('b').says(success(scene, 'f'.repeat(64))), { code: 'fenced' });
  assert.equal((await scene.job(key)).state, 'failed');
});

test('report: unusable results fail the job with the reason', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  await scene.target('b').says(success(scene, 'f'.repeat(64)));
  const last = await scene.until(key, isFinal);
  assert.deepEqual([last.state, last.timeline.at(-1)?.reason], ['failed', 'OutputFailed']);
});

test('report: a released job is offered to the next member at once, and a late report about it is rejected', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  const { last } = scene.target('b');
  await scene.target('b').says({ state: 'released', reason: 'NoRoom', message: 'no room after all' });
  const record = await scene.until(key, ({ epoch, state }) => epoch === 2 && state === 'delegated');
  assert.equal(record.placement?.member, idOf('c'));
  const released = record.timeline.find(({ reason }) => reason === 'Released');
  assert.match(released?.message ?? '', /gave it back: no room after all$/);
  for (const report of [failure(0), success(scene, 'f'.repeat(64)), { state: 'running' } as const]) {
    await assert.rejects(scene.target('b').says(report, last), { code: 'fenced' });
  }
  assert.deepEqual(await scene.job(key), record);
});

test('report: a report of another member is rejected', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  const { last } = scene.target('b');
  await assert.rejects(scene.target('c').says(failure(0), last), { code: 'fenced' });
  assert.equal((await scene.job(key)).state, 'delegated');
});

test('cancel: the member is asked to stop, and its later reports are rejected', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  const manifest = await scene.stage(scene.target('b').last, { 'a.txt': 'A' });
  await scene.manager.current.line.cancel(key, 'cancelled');
  await eventually(() =>
    assert.deepEqual(
      scene.target('b').stopped.map(({ epoch }) => epoch),
      [1],
    ),
  );
  await assert.rejects(scene.target('b').says(success(scene, manifest)), { code: 'fenced' });
  assert.equal((await scene.job(key)).state, 'cancelled');
  assert.deepEqual(scene.outputs(), []);
  await eventually(() => assert.deepEqual(scene.staged(), []));
});

test("cancel: rejected while the job's results are being committed", async () => {
  let go = () => {};
  const held = new Promise<void>((resolve) => {
    go = resolve;
  });
  await using scene = await openScene({
    deps: { commit: () => held.then(() => ({ outcome: 'committed', objects: 0, notes: [] })) },
  });
  const key = await delegatedJob(scene);
  await scene.target('b').says(success(scene, 'f'.repeat(64)));
  await scene.manager.current.line.cancel(key, 'cancelled');
  assert.equal((await scene.job(key)).state, 'committing');
  scene.clock.pass(3_600_000);
  go();
  assert.equal((await scene.until(key, isFinal)).state, 'succeeded');
});

test('commit: retried until it is done', async () => {
  let tries = 0;
  await using scene = await openScene({
    deps: {
      commit: async () => {
        tries++;
        if (tries < 3) throw new Error('the store is away');
        return { outcome: 'committed', objects: 0, notes: ['left out: x'] };
      },
    },
  });
  const key = await delegatedJob(scene);
  await scene.target('b').says(success(scene, 'f'.repeat(64)));
  const last = await scene.passing(async () => {
    const record = await scene.job(key);
    assert.equal(record.state, 'succeeded');
    return record;
  });
  assert.equal(tries, 3);
  assert.match(last.message, /left out: x/);
});

test('report: a member that has the job a second time cannot report for its first attempt', async () => {
  await using scene = await openScene({ clusters: ['b'] });
  const key = await delegatedJob(scene);
  const { last } = scene.target('b');
  await scene.target('b').says({ state: 'released', reason: 'NoRoom', message: '' });
  await scene.passing(() => assert.equal(scene.target('b').taken.size, 2));
  const record = await scene.until(key, ({ state }) => state === 'delegated');
  assert.deepEqual([record.epoch, record.placement?.member], [2, idOf('b')]);
  const released = { state: 'released', reason: 'NoRoom', message: '' } as const;
  for (const report of [{ state: 'running' } as const, released, failure(0), success(scene, 'f'.repeat(64))]) {
    await assert.rejects(scene.target('b').says(report, last), { code: 'fenced' });
  }
  await assert.rejects(scene.target('b').origin?.permit(last) ?? Promise.resolve(), { code: 'fenced' });
  assert.deepEqual(await scene.job(key), record);
});

/** A job that entered at b, and is pinned to b. */
async function enteredJob(scene: Scene): Promise<JobKey> {
  const { name } = scene.record.service.definition;
  const job = { service: name, id: jobName(name, randomUUID()) };
  await scene.manager.current.delegator.open({ job, event: Buffer.from('{}'), invoker: '' }, await scene.proof('b'));
  return job;
}

test('report: a pinned job that its member releases is offered again, a limited number of times', async () => {
  await using scene = await openScene();
  const b = scene.target('b');
  const job = await enteredJob(scene);
  const released = { state: 'released', reason: 'ImageFailed', message: 'the image cannot be pulled' } as const;
  for (let taken = 1; (await scene.job(job)).state !== 'failed'; taken++) {
    assert.ok(taken < 50);
    await eventually(() => assert.equal(b.taken.size, taken));
    await b.says(released);
    await eventually(async () => {
      scene.clock.pass(1_000);
      assert.ok(b.taken.size > taken || (await scene.job(job)).state === 'failed');
    });
  }
  assert.match((await scene.job(job)).message, /gave it back: the image cannot be pulled/);
  assert.equal(scene.target('c').offers.length, 0);
});

test('report: a pinned job does not fail because its member was away or could not reach the origin', async () => {
  await using scene = await openScene();
  const b = scene.target('b');
  b.plays = [...Array.from({ length: 12 }, () => 'silent' as const), 'take'];
  const job = await enteredJob(scene);
  await scene.passing(() => assert.equal(b.taken.size, 1));
  const refused = { state: 'released', reason: 'ImageFailed', message: 'the image cannot be pulled' } as const;
  const unheard = { state: 'released', reason: 'OriginAway', message: 'the origin does not answer' } as const;
  for (const [index, report] of [refused, ...Array.from({ length: 9 }, () => unheard)].entries()) {
    await b.says(report);
    await scene.passing(() => assert.equal(b.taken.size, index + 2));
  }
  const { state, epoch, timeline } = await scene.job(job);
  assert.equal(state, 'delegated');
  assert.ok(epoch > 20);
  assert.match(timeline.map(({ message }) => message).join(), /this cluster did not answer/);
});
