import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import { StoreError } from '../../ports/index.ts';
import { alice } from '../../services/services.fixture.ts';
import { createWorker } from './create-worker.ts';
import { recoverWorkers } from './recover-workers.ts';
import { releaseWorker } from './release-worker.ts';
import { openScene, order, WORKER } from './workers.fixture.ts';

const orderOf = (name: string) => order({ name, member: `b/${name}` }, { ...WORKER, name });

test('recover: a worker that cannot be ended is reported and ended later, and the others are ended now', async () => {
  await using scene = openScene();
  const { catalog } = scene;
  const empty = await scene.look();
  const all = ['one', 'two', 'three'];
  const stuck = new Set(all);
  const services = changedIn(catalog.services, {
    async remove(name, version) {
      if (stuck.has(name)) throw new StoreError('unavailable', 'the store is away');
      await catalog.services.remove(name, version);
    },
  });
  const workers = { ...scene.workers, catalog: { ...catalog, services } };
  for (const name of all) {
    const made = orderOf(name);
    await createWorker(alice, made, workers);
    await assert.rejects(releaseWorker(name, 'undo', made.keyId, workers), { code: 'unavailable' });
  }
  const names = async () => (await catalog.services.list({})).items.map(({ service }) => service.definition.name);
  const later = () => (scene.clock.now += 3_600_000);
  for (const name of ['one', 'three']) stuck.delete(name);
  await assert.rejects(recoverWorkers(later(), workers), { code: 'unavailable' });
  assert.deepEqual(await names(), ['two']);
  stuck.clear();
  assert.equal(await recoverWorkers(later(), workers), 1);
  assert.deepEqual(await scene.look(), empty);
});
