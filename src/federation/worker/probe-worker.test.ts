import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createService } from '../../services/index.ts';
import { admin, alice, bob } from '../../services/services.fixture.ts';
import { createWorker } from './create-worker.ts';
import { loadInstanceId } from './instance.ts';
import { probeWorker } from './probe-worker.ts';
import { NAME, OWN, openScene, order } from './workers.fixture.ts';

const instance = 'this-cluster';

test('where there is nothing, everybody is told so', async () => {
  await using scene = openScene();
  for (const who of [alice, bob, admin]) {
    assert.deepEqual(await probeWorker(who, NAME, scene.workers), { instance, found: 'nothing' });
  }
});

test('an ordinary service is the owner’s to lend, and taken for everybody else, whatever they may see of it', async () => {
  await using scene = openScene();
  const { version } = await createService(alice, { ...OWN, visibility: 'public' }, scene.catalog);
  assert.deepEqual(await probeWorker(alice, NAME, scene.workers), { instance, found: 'own', version });
  for (const who of [bob, admin]) {
    assert.deepEqual(await probeWorker(who, NAME, scene.workers), { instance, found: 'taken' });
  }
});

test('which federation a member belongs to is told to its owner and the administrator alone', async () => {
  await using scene = openScene();
  const made = order({ revision: 7 });
  await createWorker(alice, made, scene.workers);
  for (const who of [alice, admin]) {
    const expected = { instance, found: 'member', uid: made.uid, revision: 7 };
    assert.deepEqual(await probeWorker(who, NAME, scene.workers), expected);
  }
  assert.deepEqual(await probeWorker(bob, NAME, scene.workers), { instance, found: 'taken' });
});

test('a cluster has one id for all its managers, for good', async () => {
  await using scene = openScene();
  const ids = await Promise.all([1, 2, 3].map(() => loadInstanceId(scene.catalog)));
  assert.equal(new Set([...ids, await loadInstanceId(scene.catalog)]).size, 1);
  assert.match(ids[0] ?? '', /^[0-9a-f-]{36}$/);
});
