import assert from 'node:assert/strict';
import { hash, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import { memberKeyId, sign } from '../../peers/index.ts';
import { createService } from '../../services/index.ts';
import { alice, body } from '../../services/services.fixture.ts';
import { openScene, type Scene } from '../worker/workers.fixture.ts';
import { authenticateWorker, precheckWorker, type WorkerRequest } from './authenticate-worker.ts';
import { type Ledger, type LedgerMember, Ledgers } from './ledger.ts';

const UID = 'federation-of-cow';
const newKey = () => new Secret(randomBytes(32).toString('hex'));
const REQUEST = { method: 'GET', path: '/system/config', query: 'job=cow/x&epoch=1', body: '' };

/** A federation with one member. The test sets its ledger. */
async function openFederation(change: (member: LedgerMember) => readonly LedgerMember[] = (member) => [member]) {
  const scene = openScene();
  const { catalog } = scene;
  const key = newKey();
  const { service, version } = await createService(alice, body({ name: 'cow' }), catalog);
  const federation = { role: 'coordinator', uid: UID, revision: 1, committed: true } as const;
  await catalog.services.replace({ ...service, federation }, version);
  await catalog.secrets.put('member', memberKeyId(key), { key });
  const place = { clusterId: 'b', endpoint: 'https://b.example', verify: true, guarded: true, kind: 'oscar' } as const;
  const member: LedgerMember = { ...place, service: 'calf', keyId: memberKeyId(key), state: 'made', since: 0 };
  const ledger: Ledger = {
    uid: UID,
    service: 'cow',
    serviceUid: service.uid,
    phase: 'active',
    revision: 1,
    begunAt: 0,
    members: change(member),
  };
  await new Ledgers(catalog).begin(ledger);
  return { scene, key, [Symbol.asyncDispose]: () => scene[Symbol.asyncDispose]() };
}

function signed(key: Secret, { clock }: Scene, { uid = UID, member = 'b/calf', time = clock.now } = {}): WorkerRequest {
  const header = sign(REQUEST, { uid, member, key }, { time, nonce: 'nonce-of-the-test' });
  return { ...REQUEST, service: 'cow', header };
}

test('signature: a request signed with the key of a member is from that member', async () => {
  await using federation = await openFederation();
  const { scene, key } = federation;
  const { ledger, member, record } = await authenticateWorker(signed(key, scene), scene.catalog);
  assert.deepEqual([ledger.uid, member.clusterId, record.service.definition.name], [UID, 'b', 'cow']);
});

for (const state of ['wanted', 'made', 'leaving', 'conflict'] as const) {
  test(`signature: a member that is ${state} is accepted`, async () => {
    await using federation = await openFederation((member) => [{ ...member, state }]);
    const { scene, key } = federation;
    assert.equal((await authenticateWorker(signed(key, scene), scene.catalog)).member.state, state);
  });
}

for (const state of ['undoing', 'left'] as const) {
  test(`signature: a member that is ${state} is rejected`, async () => {
    await using federation = await openFederation((member) => [{ ...member, state }]);
    const { scene, key } = federation;
    await assert.rejects(authenticateWorker(signed(key, scene), scene.catalog), { code: 'federation-gone' });
  });
}

test('signature: onMemberRequest is called only for a member with a valid signature', async () => {
  await using federation = await openFederation();
  const { scene, key } = federation;
  const heard: string[] = [];
  const stores = { ...scene.catalog, onMemberRequest: ({ clusterId }: LedgerMember) => void heard.push(clusterId) };
  await assert.rejects(authenticateWorker(signed(newKey(), scene), stores), { code: 'bad-signature' });
  assert.deepEqual(heard, []);
  const { member } = await authenticateWorker(signed(key, scene), stores);
  assert.deepEqual(heard, [member.clusterId]);
});

test('signature: a member that was removed and created again is accepted with its new key only', async () => {
  const next = newKey();
  await using federation = await openFederation((member) => [
    { ...member, state: 'undoing' },
    { ...member, keyId: memberKeyId(next) },
  ]);
  const { scene, key } = federation;
  await scene.catalog.secrets.put('member', memberKeyId(next), { key: next });
  assert.equal((await authenticateWorker(signed(next, scene), scene.catalog)).member.state, 'made');
  await assert.rejects(authenticateWorker(signed(key, scene), scene.catalog), { code: 'bad-signature' });
});

test('signature: during a key rotation both keys of a member are accepted', async () => {
  const next = newKey();
  await using federation = await openFederation((member) => [{ ...member, nextKeyId: memberKeyId(next) }]);
  const { scene, key } = federation;
  await scene.catalog.secrets.put('member', memberKeyId(next), { key: next });
  for (const each of [key, next]) await authenticateWorker(signed(each, scene), scene.catalog);
  await assert.rejects(authenticateWorker(signed(newKey(), scene), scene.catalog), { code: 'bad-signature' });
});

const forged: [string, (request: WorkerRequest) => WorkerRequest][] = [
  ['another body', (request) => ({ ...request, body: 'x' })],
  ['another path', (request) => ({ ...request, path: '/system/info' })],
  ['another query', (request) => ({ ...request, query: 'job=cow/x&epoch=2' })],
  ['another method', (request) => ({ ...request, method: 'POST' })],
  ['another service', (request) => ({ ...request, service: 'sheep' })],
  ['no header that can be read', (request) => ({ ...request, header: '' })],
];
for (const [what, forge] of forged) {
  test(`signature: ${what} is rejected`, async () => {
    await using federation = await openFederation();
    const { scene, key } = federation;
    await assert.rejects(authenticateWorker(forge(signed(key, scene)), scene.catalog), { code: 'bad-signature' });
  });
}

test('signature: only a request with the right key is told that its clock is wrong', async () => {
  await using federation = await openFederation();
  const { scene, key } = federation;
  const late = signed(key, scene, { time: scene.clock.now - 6 * 60_000 });
  await assert.rejects(authenticateWorker(late, scene.catalog), { code: 'bad-signature', message: /clocks/ });
});

test('signature: an unknown federation or member is answered as gone', async () => {
  await using federation = await openFederation();
  const { scene, key } = federation;
  for (const who of [{ uid: 'another' }, { member: 'c/calf' }, { member: 'b/cow' }]) {
    await assert.rejects(authenticateWorker(signed(key, scene, who), scene.catalog), { code: 'federation-gone' });
  }
});

test('precheck: errors that the header shows are rejected before the body is read', async () => {
  await using federation = await openFederation();
  const { scene, key } = federation;
  const stranger = signed(new Secret('another key'), scene);
  const announced = { ...signed(key, scene), body: '', digest: hash('sha256', REQUEST.body, 'hex') };
  await precheckWorker(announced, scene.catalog);
  for (const who of [{ uid: 'another' }, { member: 'c/calf' }, { member: 'b/cow' }]) {
    await assert.rejects(precheckWorker(signed(key, scene, who), scene.catalog), { code: 'federation-gone' });
  }
  const refused = [
    stranger,
    { ...announced, digest: hash('sha256', 'another body', 'hex') },
    { ...announced, digest: '' },
    { ...signed(key, scene), header: '' },
    { ...signed(key, scene), service: 'another' },
    signed(key, scene, { time: scene.clock.now - 6 * 60_000 }),
    signed(key, scene, { time: scene.clock.now + 6 * 60_000 }),
  ];
  for (const request of refused) {
    await assert.rejects(precheckWorker(request, scene.catalog), { code: 'bad-signature' });
  }
});

test('signature: the federation is gone if its service is gone or another service has its name', async () => {
  await using federation = await openFederation();
  const { scene, key } = federation;
  const { services } = scene.catalog;
  await services.remove('cow', (await services.get('cow'))?.version as Version);
  await assert.rejects(authenticateWorker(signed(key, scene), scene.catalog), { code: 'federation-gone' });
  const { service, version } = await createService(alice, body({ name: 'cow' }), scene.catalog);
  await assert.rejects(authenticateWorker(signed(key, scene), scene.catalog), { code: 'federation-gone' });
  const another = { role: 'coordinator', uid: 'another', revision: 1, committed: true } as const;
  await services.replace({ ...service, federation: another }, version);
  await assert.rejects(authenticateWorker(signed(key, scene), scene.catalog), { code: 'federation-gone' });
});

test('signature: a request that is accepted once is accepted once from each member', async () => {
  await using federation = await openFederation();
  const { scene, key } = federation;
  const request = { ...signed(key, scene), once: true };
  const together = [1, 2, 3].map(() => authenticateWorker(request, scene.catalog));
  const heard = (await Promise.allSettled(together)).filter(({ status }) => status === 'fulfilled');
  assert.equal(heard.length, 1, 'of several managers that hear it at once, one takes it');
  await assert.rejects(authenticateWorker(request, scene.catalog), { message: /already used/ });
  await authenticateWorker(signed(key, scene), scene.catalog);
});
