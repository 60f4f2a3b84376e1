import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createService } from '../../services/index.ts';
import { admin, alice, bob } from '../../services/services.fixture.ts';
import { adoptWorker } from './adopt-worker.ts';
import { createWorker } from './create-worker.ts';
import { inspectWorker, probeWorker } from './probe-worker.ts';
import { rekeyWorker } from './rekey-worker.ts';
import { releaseWorker, removeOwnWorker } from './release-worker.ts';
import { readTombstone } from './tombstones.ts';
import { NAME, openScene, order, type Scene } from './workers.fixture.ts';

async function adopted(scene: Scene) {
  const { version } = await scene.own();
  const made = order();
  await adoptWorker(alice, made, version, scene.workers);
  return made;
}

test('undoing a worker that the federation made deletes it with all it has, its jobs too', async () => {
  await using scene = openScene();
  const empty = await scene.look();
  const made = order();
  await createWorker(alice, made, scene.workers);
  const uid = (await scene.get())?.service.uid;
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  assert.deepEqual(await scene.look(), empty);
  assert.deepEqual(scene.forgotten, [uid]);
});

test('the mark of a key that opened something stays for a week, that of any other for an hour', async () => {
  await using scene = openScene();
  const [made, overtaken] = [order(), order()];
  await createWorker(alice, made, scene.workers);
  const begun = scene.clock.now;
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  await releaseWorker(NAME, 'undo', overtaken.keyId, scene.workers);
  const hours = async (keyId: string) => ((await readTombstone(keyId, scene.catalog))?.until ?? begun) - begun;
  assert.equal((await hours(made.keyId)) / 3_600_000, 7 * 24);
  assert.equal((await hours(overtaken.keyId)) / 3_600_000, 1);
  await assert.rejects(createWorker(alice, overtaken, scene.workers), { code: 'federation-gone' });
});

test('with another key nothing is ended', async () => {
  await using scene = openScene();
  await adopted(scene);
  const before = await scene.look();
  for (const how of ['undo', 'detach'] as const) await releaseWorker(NAME, how, order().keyId, scene.workers);
  assert.deepEqual(await scene.look(), before);
});

test('a service that was made later under the name is not touched by an undo that comes again', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  await scene.own();
  const before = await scene.look();
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  assert.deepEqual(await scene.look(), before);
});

test('an undo that comes again after the service was adopted by another federation does not harm it', async () => {
  await using scene = openScene();
  const first = await adopted(scene);
  await releaseWorker(NAME, 'undo', first.keyId, scene.workers);
  const own = await scene.look();
  const second = order();
  const probe = await probeWorker(alice, NAME, scene.workers);
  assert.equal(probe.found, 'own');
  await adoptWorker(alice, second, probe.version as never, scene.workers);
  await releaseWorker(NAME, 'undo', first.keyId, scene.workers);
  await releaseWorker(NAME, 'undo', second.keyId, scene.workers);
  assert.deepEqual(await scene.look(), own);
});

test('many undos at once give one thing back', async () => {
  await using scene = openScene();
  await scene.own();
  const own = await scene.look();
  const made = order();
  await adoptWorker(alice, made, (await scene.get())?.version as never, scene.workers);
  await Promise.all(Array.from({ length: 3 }, () => releaseWorker(NAME, 'undo', made.keyId, scene.workers)));
  assert.deepEqual(await scene.look(), own);
});

test('detached, it is an ordinary service with the token that it had, and its own place for files', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  const token = (await scene.get())?.service.token;
  await releaseWorker(NAME, 'detach', made.keyId, scene.workers);
  const service = (await scene.get())?.service;
  assert.equal(service?.federation, undefined);
  assert.deepEqual(service?.definition.federation, { group_id: 'origin', topology: 'mesh' });
  assert.ok(token && service?.token.equals(token));
  const { buckets, secrets } = await scene.look();
  assert.deepEqual(
    buckets.map(({ name, madeBy, rules }) => ({ name, madeBy, rules: rules.map(({ prefix }) => prefix) })),
    [{ name: 'origin', madeBy: service?.uid, rules: ['in/'] }],
  );
  assert.deepEqual(Object.keys(secrets), [`service/oscar-svc-00000001/${NAME}`]);
});

test('detached where a bucket is somebody else’s, it goes without', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  const input = [{ storage_provider: 'minio.default', path: 'origin/in' }];
  await createService(bob, { name: 'bobs', image: 'ubuntu', script: 'true', input }, scene.catalog);
  await releaseWorker(NAME, 'detach', made.keyId, scene.workers);
  const service = (await scene.get())?.service;
  assert.equal(service?.federation, undefined);
  const rules = scene.server.listRules('origin').map(({ id }) => id);
  assert.equal(rules.length, 1, 'only that of bob');
});

test('an adopted service that is detached keeps the data it had, which no longer goes with it', async () => {
  await using scene = openScene();
  const made = await adopted(scene);
  await releaseWorker(NAME, 'detach', made.keyId, scene.workers);
  const { buckets, secrets } = await scene.look();
  assert.deepEqual(
    buckets.map(({ name, madeBy }) => [name, madeBy === undefined || madeBy === null]),
    [
      ['demo', true],
      ['origin', false],
    ],
  );
  assert.deepEqual(Object.keys(secrets), [`service/oscar-svc-00000001/${NAME}`]);
});

test('its owner deletes a worker where it is, and it is not made again', async () => {
  await using scene = openScene();
  const empty = await scene.look();
  const made = order();
  await createWorker(alice, made, scene.workers);
  await assert.rejects(removeOwnWorker(bob, NAME, undefined, scene.workers), { code: 'not-found' });
  await assert.rejects(removeOwnWorker(admin, NAME, 'elsewhere', scene.workers), { code: 'not-found' });
  await removeOwnWorker(alice, NAME, undefined, scene.workers);
  assert.deepEqual(await scene.look(), empty);
  await assert.rejects(createWorker(alice, made, scene.workers), { code: 'federation-gone' });
});

test('its owner ends an adoption by a delete, and deletes what was there before by another', async () => {
  await using scene = openScene();
  const empty = await scene.look();
  const { version } = await scene.own();
  const own = await scene.look();
  const made = order();
  await adoptWorker(alice, made, version, scene.workers);
  await removeOwnWorker(alice, NAME, undefined, scene.workers);
  assert.deepEqual(await scene.look(), own);
  await assert.rejects(inspectWorker(NAME, made.keyId, scene.workers), { code: 'federation-gone' });
  await removeOwnWorker(alice, NAME, undefined, scene.workers);
  assert.deepEqual(await scene.look(), empty);
});

test('a worker that is given another key while its owner deletes it goes all the same', async () => {
  await using scene = openScene();
  const empty = await scene.look();
  const made = order();
  await createWorker(alice, made, scene.workers);
  const told: string[] = [];
  await removeOwnWorker(alice, NAME, undefined, scene.workers, async ({ service: { federation } }) => {
    if (told.push(federation.keyId) === 1) await rekeyWorker(alice, order({ uid: made.uid }), scene.workers);
  });
  assert.equal(told.length, 2);
  assert.deepEqual(await scene.look(), empty);
});

test('an ordinary service is deleted like any, and leaves no mark', async () => {
  await using scene = openScene();
  await scene.own();
  await removeOwnWorker(admin, NAME, undefined, scene.workers);
  assert.equal(await scene.get(), undefined);
  assert.deepEqual((await scene.catalog.journal.list('')).items, []);
});
