import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createService } from '../../services/index.ts';
import { admin, alice, bob } from '../../services/services.fixture.ts';
import { createWorker } from './create-worker.ts';
import { loadInstanceId } from './instance.ts';
import { probeWorker } from './probe-worker.ts';
import { NAME, OWN, openScene, order } from './workers.fixture.ts';

const instance = 'this-cluster';

test('probe: a free name is shown as free to every caller', async () => {
  await using scene = openScene();
  for (const who of [alice, bob, admin]) {
    assert.deepEqual(await probeWorker(who, NAME, scene.workers), { instance, found: 'nothing' });
  }
});

test('probe: a plain service can be adopted by its owner; other users get the answer for a free name', async () => {
  await using scene = openScene();
  const { version } = await createService(alice, { ...OWN, visibility: 'public' }, scene.catalog);
  assert.deepEqual(await probeWorker(alice, NAME, scene.workers), { instance, found: 'own', version });
  assert.deepEqual(await probeWorker(bob, NAME, scene.workers), await probeWorker(bob, 'free', scene.workers));
  assert.deepEqual(await probeWorker(admin, NAME, scene.workers), { instance, found: 'taken' });
});

test('probe: only the owner and the administrator are told to which federation a member belongs', async () => {
  await using scene = openScene();
  const made = order({ revision: 7 });
  await createWorker(alice, made, scene.workers);
  for (const who of [alice, admin]) {
    const expected = { instance, found: 'member', uid: made.uid, revision: 7 };
    assert.deepEqual(await probeWorker(who, NAME, scene.workers), expected);
  }
  assert.deepEqual(await probeWorker(bob, NAME, scene.workers), { instance, found: 'nothing' });
});

test('probe: all managers of a cluster have the same instance id, which never changes', async () => {
  await using scene = openScene();
  const ids = await Promise.all([1, 2, 3].map(() => loadInstanceId(scene.catalog)));
  assert.equal(new Set([...ids, await loadInstanceId(scene.catalog)]).size, 1);
  assert.match(ids[0] ?? '', /^[0-9a-f-]{36}$/);
});
