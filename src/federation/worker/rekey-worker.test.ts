import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sign } from '../../peers/index.ts';
import { alice, bob } from '../../services/services.fixture.ts';
import { authenticateCoordinator } from './authenticate-coordinator.ts';
import { createWorker } from './create-worker.ts';
import { rekeyWorker } from './rekey-worker.ts';
import { releaseWorker, removeOwnWorker } from './release-worker.ts';
import { isWorker } from './worker-role.ts';
import { NAME, type Order, openScene, order, type Scene, WORKER } from './workers.fixture.ts';

const MINUTE = 60_000;
const REQUEST = { method: 'GET', path: `/system/services/${NAME}/federation`, query: '', body: '' };

function ask(made: Order, { clock, workers }: Scene): Promise<string> {
  const header = sign(REQUEST, made, { time: clock.now, nonce: 'n'.repeat(16) });
  return authenticateCoordinator({ ...REQUEST, service: NAME, header }, workers);
}

async function rekeyed(scene: Scene): Promise<{ first: Order; next: Order }> {
  const first = order();
  await createWorker(alice, first, scene.workers);
  const next = order({ uid: first.uid });
  assert.equal(await rekeyWorker(alice, next, scene.workers), true);
  return { first, next };
}

const memberKeys = async ({ catalog }: Scene) => (await catalog.secrets.keys('member')).items;

test('re-key: the old key is valid for ten minutes if the new one is not used', async () => {
  await using scene = openScene();
  const { first, next } = await rekeyed(scene);
  scene.clock.now += 9 * MINUTE;
  assert.equal(await ask(first, scene), next.keyId, 'and opens what the new one opens');
  scene.clock.now += MINUTE;
  await assert.rejects(ask(first, scene), { code: 'bad-signature' });
  assert.equal(await ask(next, scene), next.keyId);
});

test('re-key: the first request with the new key revokes the old one', async () => {
  await using scene = openScene();
  const { first, next } = await rekeyed(scene);
  assert.equal(await ask(next, scene), next.keyId);
  await assert.rejects(ask(first, scene), { code: 'bad-signature' });
  const kept = await scene.catalog.secrets.get('member', next.keyId);
  assert.deepEqual(Object.keys(kept?.values ?? {}), ['key', 'replaced'], 'and only its id is kept');
  assert.equal(kept?.values['replaced']?.reveal(), first.keyId);
  assert.deepEqual(await memberKeys(scene), [next.keyId]);
});

test('re-key: a delayed request does not bring back a key that was replaced; a later revision may', async () => {
  await using scene = openScene();
  const { first, next } = await rekeyed(scene);
  await assert.rejects(rekeyWorker(alice, first, scene.workers), { code: 'old-version' });
  assert.equal(await ask(next, scene), next.keyId);
  await assert.rejects(rekeyWorker(alice, first, scene.workers), { code: 'old-version' });
  assert.equal(await rekeyWorker(alice, { ...first, revision: 2 }, scene.workers), true);
  assert.equal(await ask(first, scene), first.keyId);
});

test('re-key: an old key in a request ends the worker only while it is valid', async () => {
  await using scene = openScene();
  const { first } = await rekeyed(scene);
  const bring = async () => {
    const signed = { ...REQUEST, method: 'DELETE', query: 'how=undo' };
    const header = sign(signed, first, { time: scene.clock.now, nonce: 'n'.repeat(16) });
    const keyId = await authenticateCoordinator({ ...signed, service: NAME, header, brought: first }, scene.workers);
    await releaseWorker(NAME, 'undo', keyId, scene.workers);
  };
  scene.clock.now += 11 * MINUTE;
  await bring();
  assert.ok(isWorker(await scene.get()), 'it is worth that key alone');
  const again = order({ uid: first.uid });
  await rekeyWorker(alice, again, scene.workers);
  assert.deepEqual((await memberKeys(scene)).length, 1);
});

test('re-key: a worker that its owner deleted is not created again by a new key', async () => {
  await using scene = openScene();
  const { first } = await rekeyed(scene);
  await removeOwnWorker(alice, NAME, undefined, scene.workers);
  await assert.rejects(rekeyWorker(alice, order({ uid: first.uid }), scene.workers), { code: 'federation-gone' });
  assert.equal(await scene.get(), undefined);
  assert.deepEqual(await memberKeys(scene), []);
});

test('re-key: another user is only told that the name is taken', async () => {
  await using scene = openScene();
  const { first } = await rekeyed(scene);
  await assert.rejects(rekeyWorker(bob, order({ uid: first.uid }), scene.workers), { code: 'member-taken' });
});

test('re-key: the new address of a coordinator is stored', async () => {
  await using scene = openScene();
  const { first } = await rekeyed(scene);
  const origin = { clusterId: 'a', service: 'origin', endpoint: 'https://moved.example', store: 'https://s.example' };
  await rekeyWorker(alice, order({ uid: first.uid, revision: 2, origin }, { ...WORKER, cpu: '2' }), scene.workers);
  const record = await scene.get();
  assert.ok(isWorker(record));
  assert.deepEqual(record.service.federation.origin, origin);
});

test('re-key: concurrent new keys leave one key, and nothing of the others', async () => {
  await using scene = openScene();
  const first = order();
  await createWorker(alice, first, scene.workers);
  const keys = Array.from({ length: 4 }, () => order({ uid: first.uid }));
  await Promise.allSettled(keys.map((each) => rekeyWorker(alice, each, scene.workers)));
  const record = await scene.get();
  assert.ok(isWorker(record));
  assert.deepEqual(await memberKeys(scene), [record.service.federation.keyId]);
  assert.deepEqual((await scene.look()).journal, []);
});
