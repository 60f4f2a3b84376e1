import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadInstanceId, resetInstanceId } from './instance.ts';
import { openScene } from './workers.fixture.ts';

test('instance: a cluster keeps its instance id across managers until the id is replaced', async () => {
  await using scene = openScene();
  const first = await loadInstanceId(scene.catalog);
  assert.equal(await loadInstanceId(scene.catalog), first);
  const second = await resetInstanceId(scene.catalog);
  assert.notEqual(second, first);
  assert.equal(await loadInstanceId(scene.catalog), second);
});
