import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { idOf, openScene, type Scene } from './origin.fixture.ts';

const isDelegated = ({ state }: JobRecord) => state === 'delegated';

async function taken(scene: Scene, id = 'b'): Promise<JobKey> {
  scene.fill();
  const key = await scene.submit();
  await scene.until(key, isDelegated);
  await eventually(() => assert.ok(scene.target(id).taken.size > 0));
  return key;
}

test('restart: the next manager offers a job that was being offered again, with a new epoch', async () => {
  await using scene = await openScene();
  scene.fill();
  const target = scene.target('b');
  const asked = Promise.withResolvers<void>();
  const offer = target.offer.bind(target);
  target.offer = () => {
    asked.resolve();
    return new Promise(() => {});
  };
  const key = await scene.submit();
  await asked.promise;
  assert.equal((await scene.job(key)).state, 'offering');
  target.offer = offer;
  await scene.restart();
  const record = await scene.until(key, isDelegated);
  assert.deepEqual([record.epoch, record.placement?.member], [2, idOf('b')]);
});

test('restart: a job that a member may have is offered again with the same epoch, and one that it has stays there', async () => {
  await using scene = await openScene();
  scene.target('b').plays = ['take-unheard', 'take'];
  const key = await taken(scene);
  await scene.restart();
  await eventually(() =>
    assert.deepEqual(
      scene.target('b').offers.map(({ offer }) => offer.epoch),
      [1, 1],
    ),
  );
  await scene.target('b').says({ state: 'running', startedAt: scene.clock.now() });
  await scene.restart();
  scene.clock.pass(30_000);
  assert.equal((await scene.job(key)).epoch, 1);
  assert.equal(scene.target('b').offers.length, 2);
  assert.equal(await scene.manager.current.delegator.outstanding(scene.record.service.uid, idOf('b')), 1);
});

test('restart: the next manager continues a commit', async () => {
  let go: (() => void) | undefined;
  const stuck = new Promise<never>((_, reject) => {
    go = () => reject(new Error('killed'));
  });
  let calls = 0;
  await using scene = await openScene({
    deps: {
      commit: () => {
        calls++;
        return calls === 1 ? stuck : Promise.resolve({ outcome: 'committed', objects: 1, notes: [] });
      },
    },
  });
  const key = await taken(scene);
  const manifest = 'e'.repeat(64);
  const end = { finishedAt: scene.clock.now(), reason: 'Completed', message: '' };
  await scene.target('b').says({ state: 'succeeded', manifest, ...end });
  await eventually(() => assert.equal(calls, 1));
  await scene.restart();
  const last = await scene.until(key, ({ state }) => state === 'succeeded');
  assert.equal(last.placement?.manifest, manifest);
  assert.equal(calls, 2);
  go?.();
});

test('lease: a job of a silent member is offered to the other members first', async () => {
  await using scene = await openScene();
  const key = await taken(scene);
  scene.target('c').plays = [{ refuse: 'no-room' }];
  await scene.target('b').says({ state: 'running', startedAt: scene.clock.now() });
  scene.clock.pass(149_000);
  assert.equal((await scene.job(key)).epoch, 1);
  scene.clock.pass(10_000);
  const record = await scene.until(key, ({ epoch, state }) => epoch === 3 && state === 'delegated');
  assert.deepEqual(
    record.timeline.slice(4).map(({ state, reason, place }) => [state, reason, place]),
    [
      ['queued', 'LeaseExpired', 'here'],
      ['offering', 'Offered', 'c'],
      ['offering', 'Offered', 'b'],
      ['delegated', 'Permitted', 'b'],
    ],
  );
  await assert.rejects(scene.target('b').says({ state: 'running' }, { job: key, epoch: 1 }), { code: 'fenced' });
});

test('lease: a member that reports keeps the job as long as it needs', async () => {
  await using scene = await openScene();
  const key = await taken(scene);
  for (let minute = 0; minute < 10; minute++) {
    scene.clock.pass(60_000);
    await scene.target('b').says({ state: 'running' });
  }
  assert.deepEqual([(await scene.job(key)).state, (await scene.job(key)).epoch], ['delegated', 1]);
});

test('lease: after its lease expired, a job may run at the origin if there is free capacity', async () => {
  await using scene = await openScene();
  const key = await taken(scene);
  scene.empty();
  scene.clock.pass(160_000);
  const record = await scene.until(key, ({ state }) => state === 'running');
  assert.equal(record.epoch, 2);
});
