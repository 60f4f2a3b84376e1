import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../ports/conformance/eventually.ts';
import { openScene } from './origin.fixture.ts';
import { sweepStagingArea } from './staging-area.ts';

test('staging sweep: files that no attempt needs are removed; files of the current attempt stay', async () => {
  await using scene = await openScene();
  scene.fill();
  const live = await scene.submit();
  await eventually(() => assert.equal(scene.target('b').taken.size, 1));
  await scene.target('b').says({ state: 'released', reason: 'NoRoom', message: '' });
  await scene.until(live, ({ epoch, state }) => epoch === 2 && state === 'delegated');
  const ended = await scene.submit();
  await scene.until(ended, ({ state }) => state === 'delegated');
  await scene.manager.current.line.cancel(ended, 'cancelled');
  await scene.stage({ job: live, epoch: 1 }, { old: 'x' });
  await scene.stage({ job: live, epoch: 2 }, { current: 'x' });
  await scene.stage({ job: ended, epoch: 1 }, { late: 'x' });
  await scene.stage({ job: { service: 'gone', id: 'gone-1' }, epoch: 1 }, { lost: 'x' });
  assert.equal(await sweepStagingArea({ store: scene.store, objects: scene.objects }), 3);
  assert.deepEqual(scene.staged(), [`demo/${live.id}/2/files/current`, `demo/${live.id}/2/manifest.json`]);
});

test('staging sweep: files written after the end of the job are removed when the keys have expired', async () => {
  await using scene = await openScene();
  scene.fill();
  const key = await scene.submit();
  await scene.until(key, ({ state }) => state === 'delegated');
  await scene.manager.current.line.cancel(key, 'cancelled');
  await scene.stage({ job: key, epoch: 1 }, { late: 'x' });
  await scene.passing(() => assert.deepEqual(scene.staged(), []), 60_000);
});
