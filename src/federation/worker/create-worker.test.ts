import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import { admin, alice, bob } from '../../services/services.fixture.ts';
import { createWorker } from './create-worker.ts';
import { releaseWorker } from './release-worker.ts';
import { writeTombstone } from './tombstones.ts';
import { NAME, openScene, order, WORKER } from './workers.fixture.ts';

test('create: the caller becomes the owner; token and namespace are of this cluster, whatever was sent', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  const service = (await scene.get())?.service;
  assert.equal(service?.owner, alice.uid);
  assert.equal(service?.namespace, 'oscar-svc-00000001');
  assert.notEqual(service?.token.reveal(), WORKER.token);
  assert.deepEqual(service?.definition.annotations, {});
  assert.equal(service?.definition.federation?.members?.[0]?.cluster_id, 'a');
  const { uid, keyId, digest, origin } = made;
  assert.deepEqual(service?.federation, {
    role: 'worker',
    uid,
    revision: 1,
    keyId,
    digest,
    origin,
    adopted: false,
  });
});

test('create: the worker has its secrets and its key, and nothing in the store of this cluster (F35, F46)', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  const { buckets, journal, secrets } = await scene.look();
  assert.deepEqual(buckets, []);
  assert.deepEqual(journal, []);
  assert.deepEqual(secrets, {
    [`service/oscar-svc-00000001/${NAME}`]: { PASSWORD: 'worker-password', EXTRA: 'worker-extra' },
    [`member/${made.keyId}`]: { key: made.key.reveal() },
  });
});

test('create: a bucket of this cluster with the name of one of the coordinator’s buckets is not used', async () => {
  await using scene = openScene();
  await createWorker(alice, order(), scene.workers);
  const { items } = await scene.catalog.services.list({ anyOf: ['input:origin', 'bucket:origin'] as never[] });
  assert.deepEqual(items, []);
});

test('create: a repeated or concurrent create with the same key makes one worker, which does not change', async () => {
  await using scene = openScene();
  const made = order();
  await Promise.all(Array.from({ length: 6 }, () => createWorker(alice, made, scene.workers)));
  const before = await scene.get();
  await createWorker(alice, made, scene.workers);
  assert.equal((await scene.get())?.version, before?.version);
});

test('create: a name that is in use is taken, also for the same user and the same federation', async () => {
  await using scene = openScene();
  await scene.own();
  const before = await scene.look();
  for (const who of [alice, bob, admin]) {
    await assert.rejects(createWorker(who, order(), scene.workers), { code: 'member-taken' });
  }
  assert.deepEqual(await scene.look(), before);
});

test('create: of two concurrent federations with one name, one gets it and the other leaves nothing', async () => {
  await using scene = openScene();
  const orders = [order(), order()];
  const outcomes = await Promise.allSettled(orders.map((each) => createWorker(alice, each, scene.workers)));
  assert.deepEqual(outcomes.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
  const keys = (await scene.catalog.secrets.keys('member')).items;
  const federation = (await scene.get())?.service.federation;
  assert.deepEqual(keys, [federation?.role === 'worker' ? federation.keyId : '']);
});

const refused: [string, object, { code: string }][] = [
  ['an image that this cluster does not allow', { ...WORKER, image: 'evil.example/x' }, { code: 'image-refused' }],
  ['a block that this manager does not have', { ...WORKER, volume: { size: '1Gi' } }, { code: 'not-supported' }],
  ['a definition of something else', { ...WORKER, name: 'other' }, { code: 'invalid-federation' }],
  ['what is no definition', { name: NAME }, { code: 'invalid-definition' }],
];
for (const [name, document, error] of refused) {
  test(`create: ${name} is rejected, and nothing is left`, async () => {
    await using scene = openScene();
    await scene.catalog.settings.write({ allowedImageRepositories: ['docker.io/library'] });
    const empty = await scene.look();
    await assert.rejects(createWorker(alice, order({}, document), scene.workers), error);
    assert.deepEqual(await scene.look(), empty);
  });
}

test('create: a create that arrives after its undo creates nothing', async () => {
  await using scene = openScene();
  const late = order();
  const empty = await scene.look();
  await releaseWorker(NAME, 'undo', late.keyId, scene.workers);
  await assert.rejects(createWorker(alice, late, scene.workers), { code: 'federation-gone' });
  assert.deepEqual(await scene.look(), empty);
});

test('create: concurrent create and undo leave nothing, in either order', async () => {
  await using scene = openScene();
  const empty = await scene.look();
  for (let round = 0; round < 20; round++) {
    const made = order();
    const making = createWorker(alice, made, scene.workers).catch((error) =>
      assert.equal(error.code, 'federation-gone'),
    );
    for (let turn = 0; turn < round; turn++) await scene.catalog.settings.read();
    await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
    await making;
    assert.deepEqual(await scene.look(), empty);
  }
});

test('create: a create detects the tombstone of an undo that crashed meanwhile', async () => {
  await using scene = openScene();
  const empty = await scene.look();
  const made = order();
  const { catalog } = scene.workers;
  const services = changedIn(catalog.services, {
    async create(...args: Parameters<typeof catalog.services.create>) {
      const record = await catalog.services.create(...args);
      await writeTombstone(made.keyId, { service: NAME, reason: 'ended-by-coordinator', ending: 'undo' }, catalog);
      return record;
    },
  });
  const workers = { ...scene.workers, catalog: { ...catalog, services } };
  await assert.rejects(createWorker(alice, made, workers), { code: 'federation-gone' });
  assert.deepEqual(await scene.look(), empty);
});
