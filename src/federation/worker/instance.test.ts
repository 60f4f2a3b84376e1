import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadInstanceId, resetInstanceId } from './instance.ts';
import { openScene } from './workers.fixture.ts';

test('a cluster keeps its name, also from one manager to the next, until it is given another', async () => {
  await using scene = openScene();
  const first = await loadInstanceId(scene.catalog);
  assert.equal(await loadInstanceId(scene.catalog), first);
  const second = await resetInstanceId(scene.catalog);
  assert.notEqual(second, first);
  assert.equal(await loadInstanceId(scene.catalog), second);
});
