import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import type { Version } from '../../lib/version.ts';
import { sign } from '../../peers/index.ts';
import { alice } from '../../services/services.fixture.ts';
import { authenticateCoordinator, type CoordinatorRequest, precheckCoordinator } from './authenticate-coordinator.ts';
import { createWorker } from './create-worker.ts';
import { releaseWorker, removeOwnWorker } from './release-worker.ts';
import { NAME, type Order, openScene, order, type Scene } from './workers.fixture.ts';

const REQUEST = { method: 'GET', path: `/system/services/${NAME}/federation`, query: '', body: '' };

function signed(made: Order, scene: Scene, time = scene.clock.now): CoordinatorRequest {
  return { ...REQUEST, service: NAME, header: sign(REQUEST, made, { time, nonce: 'n'.repeat(16) }) };
}

test('signature: a request signed with the key of the worker is from its coordinator', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  assert.equal(await authenticateCoordinator(signed(made, scene), scene.workers), made.keyId);
});

const forged: [string, (made: Order, scene: Scene) => CoordinatorRequest][] = [
  ['another key', (made, scene) => signed({ ...order(), uid: made.uid }, scene)],
  ['another body', (made, scene) => ({ ...signed(made, scene), body: 'x' })],
  ['another path', (made, scene) => ({ ...signed(made, scene), path: '/system/services/other/federation' })],
  ['another method', (made, scene) => ({ ...signed(made, scene), method: 'DELETE' })],
  ['a member of another name', (made, scene) => signed({ ...made, member: 'b/other' }, scene)],
  ['a time that is long ago', (made, scene) => signed(made, scene, scene.clock.now - 6 * 60_000)],
  ['a time that is to come', (made, scene) => signed(made, scene, scene.clock.now + 6 * 60_000)],
  ['no header that can be read', (made, scene) => ({ ...signed(made, scene), header: '' })],
  [
    'a key that is brought and is not the one it is signed with',
    (made, scene) => ({ ...signed(made, scene), brought: { ...order(), uid: made.uid, member: made.member } }),
  ],
  ['a key that is brought for another federation', (made, scene) => ({ ...signed(made, scene), brought: order() })],
];
for (const [name, forge] of forged) {
  test(`signature: ${name} is rejected`, async () => {
    await using scene = openScene();
    const made = order();
    await createWorker(alice, made, scene.workers);
    const request = forge(made, scene);
    await assert.rejects(authenticateCoordinator(request, scene.workers), { code: 'bad-signature' });
    // The digest of the body is all that is known before the body is read.
    const announced = { ...request, body: '', digest: hash('sha256', request.body, 'hex') };
    await assert.rejects(precheckCoordinator(announced, scene.workers), { code: 'bad-signature' });
  });
}

test('precheck: a request for an unknown worker is rejected before the body is read', async () => {
  await using scene = openScene();
  const made = order();
  await assert.rejects(precheckCoordinator(signed(made, scene), scene.workers), { code: 'not-found' });
  await createWorker(alice, made, scene.workers);
  await precheckCoordinator(signed(made, scene), scene.workers);
  await removeOwnWorker(alice, NAME, undefined, scene.workers);
  await assert.rejects(precheckCoordinator(signed(made, scene), scene.workers), { code: 'federation-gone' });
});

test('signature: an unknown worker is answered as not found, a former one as gone', async () => {
  await using scene = openScene();
  const made = order();
  const ask = () => authenticateCoordinator(signed(made, scene), scene.workers);
  await assert.rejects(ask(), { code: 'not-found' });
  await scene.own();
  await assert.rejects(ask(), { code: 'not-found' });
  await removeOwnWorker(alice, NAME, undefined, scene.workers);
  await createWorker(alice, made, scene.workers);
  await removeOwnWorker(alice, NAME, undefined, scene.workers);
  await assert.rejects(ask(), { code: 'federation-gone' });
});

test('signature: a worker that is added again with a new key is no longer answered as gone', async () => {
  await using scene = openScene();
  const first = order();
  await createWorker(alice, first, scene.workers);
  await releaseWorker(NAME, 'undo', first.keyId, scene.workers);
  const again = order({ uid: first.uid });
  await createWorker(alice, again, scene.workers);
  assert.equal(await authenticateCoordinator(signed(again, scene), scene.workers), again.keyId);
  // As after a restore: the owner did not delete the worker, so it may be created again.
  await scene.catalog.services.remove(NAME, (await scene.get())?.version as Version);
  await assert.rejects(authenticateCoordinator(signed(again, scene), scene.workers), { code: 'not-found' });
});

test('signature: a key in the request needs no worker, and is valid for that key only', async () => {
  await using scene = openScene();
  const made = order();
  const request = { ...signed(made, scene), brought: made };
  assert.equal(await authenticateCoordinator(request, scene.workers), made.keyId);
});
