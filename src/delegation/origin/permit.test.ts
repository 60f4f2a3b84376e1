import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import type { Permit } from '../../peers/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { SigningSecret, signRequest } from '../../s3-server/index.ts';
import { ALICE, idOf, openScene, type Scene, STAGING } from './origin.fixture.ts';
import { OriginFollower } from './origin-follower.ts';

const isDelegated = ({ state }: JobRecord) => state === 'delegated';
const INPUT = { input: [{ storage_provider: 'minio.default', path: 'demo/in' }] };

const eventOf = (bucket: string, key: string) =>
  JSON.stringify({
    Records: [
      { eventSource: 'minio:s3', eventName: 's3:ObjectCreated:Put', s3: { bucket: { name: bucket }, object: { key } } },
    ],
  });

async function delegatedJob(scene: Scene, event = '{}', more: Partial<JobRecord> = {}): Promise<JobKey> {
  scene.fill();
  const key = await scene.submit(event, more);
  await scene.until(key, isDelegated);
  return key;
}

const permit = async (scene: Scene, key: JobKey, id = 'b', epoch = 1) =>
  scene.manager.current.delegator.permit({ job: key, epoch }, await scene.proof(id));

test("permit: its keys write below the attempt's part of staging and nowhere else", async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  const { staging, store, input, lease } = await permit(scene, key);
  assert.deepEqual(staging, {
    bucket: STAGING,
    prefix: `demo/${key.id}/1/files/`,
    manifest: `demo/${key.id}/1/manifest.json`,
  });
  assert.deepEqual([store.endpoint, input, lease], ['http://127.0.0.1', undefined, 90_000]);
  assert.equal(store.expiresAt, scene.clock.now() + 3_600_000);
});

test('permit: a repeated request renews the lease and changes nothing else', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  const before = await scene.job(key);
  scene.clock.pass(30_000);
  await permit(scene, key);
  const after = await scene.job(key);
  assert.equal(after.placement?.heardAt, scene.clock.now());
  assert.equal(after.placement?.permittedAt, before.placement?.permittedAt);
  assert.deepEqual(after.timeline, before.timeline);
});

test('permit: a replayed request is rejected here, at another manager, and after a restart', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  const attempt = { job: key, epoch: 1 };
  const recorded = await scene.proof('b');
  await scene.manager.current.delegator.permit(attempt, recorded);
  const heard = await scene.job(key);
  const repeated = { code: 'bad-signature', message: /already used/ };
  scene.clock.pass(1_000);
  await assert.rejects(scene.manager.current.delegator.permit(attempt, recorded), repeated);
  await assert.rejects(new OriginFollower(scene.manager.current.deps).permit(attempt, recorded), repeated);
  await scene.restart();
  await assert.rejects(scene.manager.current.delegator.permit(attempt, recorded), repeated);
  assert.deepEqual(await scene.job(key), heard, 'and it renews no lease');
  await permit(scene, key);
});

test('permit: two concurrent requests of a member both get a permit', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  const desk = new OriginFollower(scene.manager.current.deps);
  const attempt = { job: key, epoch: 1 };
  const ask = async () => desk.permit(attempt, await scene.proof('b'));
  assert.equal((await Promise.all([ask(), ask(), permit(scene, key)])).length, 3);
  assert.ok(((await scene.job(key)).placement?.asked?.last.length ?? 0) >= 3);
});

test('permit: its keys read the input if the job may read it', async () => {
  await using scene = await openScene({ body: INPUT });
  const key = await delegatedJob(scene, eventOf('demo', 'in/a.txt'));
  assert.deepEqual((await permit(scene, key)).input, { bucket: 'demo', key: 'in/a.txt' });
});

test('permit: a file of another user is not readable, whatever the event says', async () => {
  await using scene = await openScene({ body: INPUT });
  const bob = { owner: 'bob-000002', ownerName: 'Bob', visibility: 'private', allowedUsers: [] } as const;
  await scene.objects.createBucket({ name: 'bobs', ...bob });
  const key = await delegatedJob(scene, eventOf('bobs', 'in/a.txt'));
  assert.equal((await permit(scene, key)).input, undefined);
});

test('permit: a job that entered at a member reads only below an input of the service, although its owner may read more', async () => {
  await using scene = await openScene({ body: INPUT, federation: { topology: 'mesh' } });
  const opened = { openedBy: idOf('b'), byToken: true, principal: ALICE };
  const inside = await delegatedJob(scene, eventOf('demo', 'in/a.txt'), opened);
  assert.deepEqual((await permit(scene, inside)).input, { bucket: 'demo', key: 'in/a.txt' });
  const outside = await delegatedJob(scene, eventOf('demo', 'private/a.txt'), opened);
  assert.equal((await permit(scene, outside)).input, undefined);
});

test('permit: rejected for another member, another epoch, and a job that does not exist', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  await assert.rejects(permit(scene, key, 'c'), { code: 'fenced' });
  await assert.rejects(permit(scene, key, 'b', 2), { code: 'fenced' });
  await assert.rejects(permit(scene, key, 'b', 0), { code: 'fenced' });
  await assert.rejects(permit(scene, { ...key, id: 'demo-other' }), { code: 'job-gone' });
});

test('permit: a member of another federation cannot find out whether the job exists', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  const proof = await scene.proof('b');
  const other = { ...proof, record: { ...proof.record, service: { ...proof.record.service, uid: 'another' } } };
  const asked = scene.manager.current.delegator.permit({ job: key, epoch: 1 }, other);
  await assert.rejects(asked, { code: 'job-gone' });
});

/** The answer of the store to a request with these keys. */
async function answerTo(scene: Scene, port: number, { store, staging }: Permit): Promise<number> {
  const { url, headers } = signRequest({
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    service: 's3',
    method: 'PUT',
    path: `/${staging.bucket}/${staging.prefix}late`,
    headers: { 'x-amz-security-token': store.sessionToken?.reveal() ?? '' },
    body: Buffer.from('late'),
    accessKey: store.accessKey.reveal(),
    secret: new SigningSecret(store.secretKey.reveal()),
    now: scene.clock.now(),
  });
  return (await fetch(url, { method: 'PUT', headers, body: 'late' })).status;
}

test('permit: keys are revoked when the job ends, whichever manager issued them, and after a restart too', async () => {
  await using scene = await openScene();
  const key = await delegatedJob(scene);
  const { port } = await scene.server.listen({ host: '127.0.0.1', port: 0 });
  const early = await permit(scene, key);
  assert.equal(await answerTo(scene, port, early), 200);
  await scene.restart();
  const desk = new OriginFollower(scene.manager.current.deps);
  const later = await desk.permit({ job: key, epoch: 1 }, await scene.proof('b'));
  await scene.manager.current.line.cancel(key, 'cancelled');
  for (const keys of [early, later]) {
    await eventually(async () => assert.equal(await answerTo(scene, port, keys), 403));
  }
  await assert.rejects(permit(scene, key), { code: 'fenced' });
});
