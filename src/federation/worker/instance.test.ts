import assert from 'node:assert/strict';
import { test } from 'node:test';
import { instanceId, newInstanceId } from './instance.ts';
import { openScene } from './workers.fixture.ts';

test('a cluster keeps its name, also from one manager to the next, until it is given another', async () => {
  await using scene = openScene();
  const first = await instanceId(scene.catalog);
  assert.equal(await instanceId(scene.catalog), first);
  const second = await newInstanceId(scene.catalog);
  assert.notEqual(second, first);
  assert.equal(await instanceId(scene.catalog), second);
});
