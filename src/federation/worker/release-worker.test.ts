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

test('undo: a worker that the federation created is deleted with everything it has, including its jobs', async () => {
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

test('undo: the tombstone of a key with a worker stays for a week, any other for an hour', async () => {
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

test('undo: a key that no probe has announced leaves no mark, however many there are', async () => {
  await using scene = openScene({ announced: false });
  const before = (await scene.catalog.journal.list('')).items.length;
  for (let n = 0; n < 50; n++) await releaseWorker(NAME, n % 2 ? 'undo' : 'detach', order().keyId, scene.workers);
  assert.equal((await scene.catalog.journal.list('')).items.length, before);
});

test('undo: of an announced key rejects the create that arrives later, and without an announcement no create succeeds', async () => {
  await using scene = openScene({ announced: false });
  const [late, unannounced] = [order(), order()];
  await probeWorker(alice, NAME, scene.workers, late.keyId);
  await releaseWorker(NAME, 'undo', late.keyId, scene.workers);
  await assert.rejects(createWorker(alice, late, scene.workers), { code: 'federation-gone' });
  await releaseWorker(NAME, 'undo', unannounced.keyId, scene.workers);
  await assert.rejects(createWorker(alice, unannounced, scene.workers), { code: 'old-version', message: /\?key=/ });
  const { version } = await scene.own();
  await assert.rejects(adoptWorker(alice, unannounced, version, scene.workers), { code: 'old-version' });
  assert.equal((await scene.get())?.version, version);
  await probeWorker(alice, NAME, scene.workers, unannounced.keyId);
  await adoptWorker(alice, unannounced, version, scene.workers);
});

test('undo: another key ends nothing', async () => {
  await using scene = openScene();
  await adopted(scene);
  const before = await scene.look();
  for (const how of ['undo', 'detach'] as const) await releaseWorker(NAME, how, order().keyId, scene.workers);
  assert.deepEqual(await scene.look(), before);
});

test('undo: a repeated undo does not touch a service that was created later with the same name', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  await scene.own();
  const before = await scene.look();
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  assert.deepEqual(await scene.look(), before);
});

test('undo: a repeated undo does not touch a service that another federation has adopted since', async () => {
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

test('undo: concurrent undos restore one service', async () => {
  await using scene = openScene();
  await scene.own();
  const own = await scene.look();
  const made = order();
  await adoptWorker(alice, made, (await scene.get())?.version as never, scene.workers);
  await Promise.all(Array.from({ length: 3 }, () => releaseWorker(NAME, 'undo', made.keyId, scene.workers)));
  assert.deepEqual(await scene.look(), own);
});

test('detach: the worker becomes a plain service with its token and its own storage', async () => {
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

test('detach: if a bucket belongs to another user, the service is detached without it', async () => {
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

test('detach: an adopted service keeps its data, which is no longer deleted with it', async () => {
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

test('delete: the owner deletes a worker on its cluster, and it is not created again', async () => {
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

test('delete: the first delete of the owner ends the adoption, the second deletes the restored service', async () => {
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

test('delete: a worker is deleted by its owner even if it gets another key meanwhile', async () => {
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

test('delete: a plain service is deleted as usual, and leaves no tombstone', async () => {
  await using scene = openScene();
  await scene.own();
  await removeOwnWorker(admin, NAME, undefined, scene.workers);
  assert.equal(await scene.get(), undefined);
  assert.deepEqual((await scene.catalog.journal.list('')).items, []);
});
