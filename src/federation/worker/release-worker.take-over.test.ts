import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sign } from '../../peers/index.ts';
import { updatePlainOrFederated } from '../../services/index.ts';
import { alice, bob } from '../../services/services.fixture.ts';
import type { Coordination } from '../coordinator/coordination.ts';
import { adoptWorker } from './adopt-worker.ts';
import { authenticateCoordinator } from './authenticate-coordinator.ts';
import { createWorker } from './create-worker.ts';
import { federatedServices } from './federated-services.ts';
import { NAME, type Order, OWN, openScene, order, type Scene } from './workers.fixture.ts';

const HOUR = 3_600_000;
const REQUEST = { method: 'GET', path: `/system/services/${NAME}/federation`, query: '', body: '' };

function hear(made: Order, { clock, workers }: Scene): Promise<string> {
  const header = sign(REQUEST, made, { time: clock.now, nonce: 'n'.repeat(16) });
  return authenticateCoordinator({ ...REQUEST, service: NAME, header }, workers);
}

const federated = (workers: Scene['workers']) => federatedServices({ coordination: {} as Coordination, workers });

const put = ({ workers }: Scene, principal: typeof alice = alice, body: object = OWN) =>
  updatePlainOrFederated({ principal }, body, undefined, workers.catalog, federated(workers));

test('take-over: while its coordinator is in contact, a worker cannot be changed by its owner, and the error says until when', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  for (let day = 0; day < 3; day++) {
    await hear(made, scene);
    scene.clock.now += 20 * HOUR;
    await assert.rejects(put(scene), {
      code: 'not-the-coordinator',
      message: /change "origin" at https:\/\/a\.example, .* a PUT after 20\d\d-.* makes it a plain service/,
    });
  }
});

test('take-over: after a day without contact only the owner can take the worker over', async () => {
  await using scene = openScene();
  const events: unknown[] = [];
  const workers = { ...scene.workers, audit: (event: unknown) => events.push(event) };
  const made = order();
  await createWorker(alice, made, scene.workers);
  await hear(made, scene);
  scene.clock.now += 25 * HOUR;
  await assert.rejects(put(scene, bob), { code: 'not-found' });
  await put({ ...scene, workers });
  const service = (await scene.get())?.service;
  assert.equal(service?.federation, undefined);
  assert.equal(service?.definition.script, OWN.script);
  assert.deepEqual(events, [{ what: 'taken-over', service: NAME, uid: made.uid, by: alice.uid }]);
  await assert.rejects(hear(made, scene), { code: 'federation-gone' }, 'a coordinator that comes back is told');
  await assert.rejects(createWorker(alice, made, scene.workers), { code: 'federation-gone' });
  const { journal, secrets } = await scene.look();
  assert.deepEqual(journal, []);
  assert.deepEqual(
    Object.keys(secrets).filter((key) => key.startsWith('member/')),
    [],
  );
});

test('take-over: an adopted service gets the definition of its owner, not the one from before the adoption', async () => {
  await using scene = openScene();
  const { version } = await scene.own();
  const made = order();
  await adoptWorker(alice, made, version, scene.workers);
  await hear(made, scene);
  scene.clock.now += 25 * HOUR;
  await put(scene, alice, { ...OWN, script: 'echo mine again' });
  const service = (await scene.get())?.service;
  assert.deepEqual([service?.federation, service?.definition.script], [undefined, 'echo mine again']);
});

test('take-over: for a coordinator without any contact the day starts with the first attempt to change its worker', async () => {
  await using scene = openScene();
  await createWorker(alice, order(), scene.workers);
  scene.clock.now += 100 * HOUR;
  await assert.rejects(put(scene), { code: 'not-the-coordinator' });
  scene.clock.now += 25 * HOUR;
  await put(scene);
  assert.equal((await scene.get())?.service.federation, undefined);
});

test('take-over: an old version is rejected', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  await hear(made, scene);
  scene.clock.now += 25 * HOUR;
  const old = updatePlainOrFederated(
    { principal: alice },
    OWN,
    'old' as NonNullable<Parameters<typeof updatePlainOrFederated>[2]>,
    scene.workers.catalog,
    federated(scene.workers),
  );
  await assert.rejects(old, { code: 'old-version' });
  assert.ok((await scene.get())?.service.federation);
});

test('take-over: the time of the last contact is written once an hour', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  const versionOf = async () => (await scene.catalog.journal.read(`heard/${made.uid}/${NAME}`))?.version;
  await hear(made, scene);
  const first = await versionOf();
  assert.ok(first);
  scene.clock.now += HOUR - 1;
  await hear(made, scene);
  assert.equal(await versionOf(), first);
  scene.clock.now += 1;
  await hear(made, scene);
  assert.notEqual(await versionOf(), first);
});
