import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../cluster/eventually.ts';
import { type JobKey, StoreError } from '../../../cluster/index.ts';
import type { Placed } from '../../../storage/object-store.ts';
import { openScene, type Scene } from '../origin.fixture.ts';

/** A job that has made one file elsewhere, and the store says this when it is to be placed. */
async function reported(scene: Scene, place: () => Promise<Placed>): Promise<JobKey> {
  const objects = Object.assign(Object.create(scene.objects), {
    read: scene.objects.read.bind(scene.objects),
    bucket: scene.objects.bucket.bind(scene.objects),
    place,
  });
  Object.assign(scene.commitDeps, { objects });
  scene.fill();
  const key = await scene.submit();
  await eventually(() => assert.equal(scene.target('b').taken.size, 1));
  const manifest = await scene.stage(scene.target('b').last, { 'a.txt': 'A' });
  const end = { finishedAt: scene.clock.now(), reason: 'Completed', message: '' };
  await scene.target('b').says({ state: 'succeeded', manifest, ...end });
  return key;
}

test('what the store refuses for good fails the job, and the sentence names the object and its word', async () => {
  await using scene = await openScene();
  const refused = 'the store answered 400 (XMinioParentIsObject)';
  const key = await reported(scene, async () => ({ refused }));
  const last = await scene.until(key, ({ state }) => state === 'failed');
  assert.equal(last.timeline.at(-1)?.reason, 'OutputFailed');
  assert.equal(last.message, `the output "a.txt" could not be written to "demo/out/a.txt": ${refused}`);
});

test('what may pass is shown in the record, and tried until it is done', async () => {
  await using scene = await openScene();
  let tries = 0;
  const key = await reported(scene, async () => {
    if (tries++ < 2) throw new StoreError('unavailable', 'the object store is away');
    return 'placed';
  });
  const said = 'its results could not be written yet, and it is tried again: the object store is away';
  const waiting = await scene.until(key, ({ message }) => message === said);
  assert.equal(waiting.state, 'committing');
  scene.manager.current.delegator.heard(key, waiting);
  assert.equal(tries, 1, 'who hears of it does not try again before the time');
  await scene.passing(async () => assert.equal((await scene.job(key)).state, 'succeeded'));
  assert.deepEqual([(await scene.job(key)).message, tries], ['its results are written', 3]);
});
