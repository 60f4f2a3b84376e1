import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../ports/conformance/eventually.ts';
import { idOf, openScene } from './origin.fixture.ts';
import { failure } from './scripted-target.fixture.ts';

test('delegate: a job that fits at the origin runs there, and no member is asked', async () => {
  await using scene = await openScene();
  const key = await scene.submit();
  await scene.until(key, ({ state }) => state === 'running');
  assert.deepEqual(
    [...scene.targets.values()].flatMap(({ offers }) => offers),
    [],
  );
});

test('delegate: a job that does not fit is offered to the first member, runs there, and its results are committed', async () => {
  await using scene = await openScene();
  scene.fill();
  const key = await scene.submit();
  const delegated = await scene.until(key, ({ state }) => state === 'delegated');
  assert.equal(delegated.placement?.member, idOf('b'));
  const b = scene.target('b');
  await eventually(() => assert.equal(b.taken.size, 1));
  await b.says({ state: 'running', startedAt: scene.clock.now() });
  assert.deepEqual(
    (await scene.job(key)).attempts.map(({ epoch, place }) => [epoch, place]),
    [[1, 'b']],
  );
  const manifest = await scene.stage(b.last, { 'a.txt': 'A' });
  scene.clock.pass(5_000);
  await b.says({
    state: 'succeeded',
    manifest,
    finishedAt: scene.clock.now(),
    exitCode: 0,
    reason: 'Completed',
    message: '',
  });
  const last = await scene.until(key, ({ state }) => state === 'succeeded');
  assert.deepEqual(
    last.timeline.map(({ state, reason, place }) => [state, reason, place]),
    [
      ['accepted', 'Accepted', 'here'],
      ['queued', 'Waiting', 'here'],
      ['offering', 'Offered', 'b'],
      ['delegated', 'Permitted', 'b'],
      ['committing', 'Finished', 'b'],
      ['succeeded', 'Completed', 'b'],
    ],
  );
  assert.equal(last.exitCode, 0);
  assert.equal((last.finishedAt ?? 0) - (last.startedAt ?? 0), 5_000);
  assert.deepEqual(scene.outputs(), ['out/a.txt']);
  await eventually(() => assert.deepEqual(scene.staged(), []));
  assert.equal(await scene.manager.current.delegator.outstanding(scene.record.service.uid, idOf('b')), 0);
  assert.deepEqual(scene.problems, []);
});

test('delegate: a failed script fails the job, with its exit code and place', async () => {
  await using scene = await openScene();
  scene.fill();
  const key = await scene.submit();
  await eventually(() => assert.equal(scene.target('b').taken.size, 1));
  await scene.target('b').says(failure(scene.clock.now()));
  const last = await scene.until(key, ({ state }) => state === 'failed');
  assert.deepEqual([last.exitCode, last.message, last.timeline.at(-1)?.place], [3, 'exit code 3', 'b']);
});

test('delegate: without offers on arrival, a job is offered after it has waited', async () => {
  await using scene = await openScene({ deps: { offerJobs: { onArrival: false, whileWaiting: true } } });
  scene.fill();
  const key = await scene.submit();
  assert.equal(scene.target('b').offers.length, 0);
  await scene.passing(async () => assert.equal((await scene.job(key)).state, 'delegated'), 2_000);
});

test('delegate: without offers on arrival, the definition sets how long a job waits', async () => {
  const deps = { offerJobs: { onArrival: false, whileWaiting: true }, reofferAfter: 3_600_000 };
  await using scene = await openScene({ deps, federation: { rescheduler_threshold: 5 } });
  scene.fill();
  const begun = scene.clock.now();
  const key = await scene.submit();
  const { timeline } = await scene.passing(async () => {
    const job = await scene.job(key);
    assert.equal(job.state, 'delegated');
    return job;
  });
  const offered = timeline.find(({ state }) => state === 'offering')?.at ?? 0;
  assert.ok(offered >= begun + 5_000 && offered < begun + 3_600_000, `after ${offered - begun} ms`);
});

test('delegate: without repeated offers, no member is asked a second time', async () => {
  await using scene = await openScene({ deps: { offerJobs: { onArrival: true, whileWaiting: false } } });
  scene.fill();
  for (const target of scene.targets.values()) target.plays = [{ refuse: 'no-room' }];
  const key = await scene.submit();
  await scene.until(key, ({ message }) => /no member could accept it/.test(message));
  const asked = scene.target('b').offers.length;
  scene.clock.pass(3_600_000);
  assert.equal((await scene.job(key)).state, 'queued');
  assert.equal(scene.target('b').offers.length, asked);
});
