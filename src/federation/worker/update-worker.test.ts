import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alice } from '../../services/services.fixture.ts';
import { createWorker } from './create-worker.ts';
import { inspectWorker } from './probe-worker.ts';
import { releaseWorker } from './release-worker.ts';
import { updateWorker } from './update-worker.ts';
import { NAME, openScene, order, WORKER } from './workers.fixture.ts';

const digest = (letter: string) => letter.repeat(64);
const NEXT = { ...WORKER, script: 'echo next', environment: { secrets: { PASSWORD: 'next-password', EXTRA: '' } } };
const change = (revision: number, letter = 'b', definition: unknown = NEXT) => ({
  revision,
  digest: digest(letter),
  definition,
});

test('update: a newer revision replaces definition and secrets; uid, owner, token and vo stay', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  const before = (await scene.get())?.service;
  await updateWorker(NAME, change(2, 'b', { ...NEXT, vo: '/another' }), made.keyId, scene.workers);
  const service = (await scene.get())?.service;
  assert.equal(service?.definition.script, 'echo next');
  assert.equal(service?.definition.vo, '/oscar');
  for (const key of ['uid', 'owner', 'namespace'] as const) assert.equal(service?.[key], before?.[key]);
  assert.ok(before && service?.token.equals(before.token));
  const { secrets, buckets } = await scene.look();
  assert.deepEqual(
    secrets[`service/oscar-svc-00000001/${NAME}`],
    { PASSWORD: 'next-password', EXTRA: 'worker-extra' },
    'a blank one stays (F20)',
  );
  assert.deepEqual(buckets, []);
  assert.deepEqual(await inspectWorker(NAME, made.keyId, scene.workers), {
    instance: 'this-cluster',
    revision: 2,
    digest: digest('b'),
  });
});

test('update: the same revision is a no-op, unless the definition differs', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  const version = (await scene.get())?.version;
  await updateWorker(NAME, { ...made, definition: NEXT }, made.keyId, scene.workers);
  assert.equal((await scene.get())?.version, version);
  await updateWorker(NAME, change(1), made.keyId, scene.workers);
  assert.equal((await scene.get())?.service.definition.script, 'echo next');
});

test('update: an older revision is rejected, and changes nothing', async () => {
  await using scene = openScene();
  const made = order({ revision: 5 });
  await createWorker(alice, made, scene.workers);
  const before = await scene.look();
  await assert.rejects(updateWorker(NAME, change(4), made.keyId, scene.workers), { code: 'conflict' });
  assert.deepEqual(await scene.look(), before);
});

test('update: after concurrent revisions the newest is stored, with its own secrets', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  const one = (n: number) => ({ ...WORKER, script: `echo ${n}`, environment: { secrets: { PASSWORD: `${n}` } } });
  const send = (n: number) =>
    updateWorker(
      NAME,
      { revision: n, digest: n.toString(16).repeat(64), definition: one(n) },
      made.keyId,
      scene.workers,
    );
  const outcomes = await Promise.allSettled([5, 2, 4, 3].map(send));
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') assert.match(outcome.reason.code, /conflict|contended/);
  }
  await send(5);
  assert.equal((await scene.get())?.service.definition.script, 'echo 5');
  const { secrets } = await scene.look();
  assert.deepEqual(secrets[`service/oscar-svc-00000001/${NAME}`], { PASSWORD: '5' });
});

test('update: a change for another key, a removed worker or another service is rejected', async () => {
  await using scene = openScene();
  const made = order();
  await createWorker(alice, made, scene.workers);
  await assert.rejects(updateWorker(NAME, change(2), order().keyId, scene.workers), { code: 'not-found' });
  const other = { ...NEXT, name: 'other' };
  await assert.rejects(updateWorker(NAME, change(2, 'b', other), made.keyId, scene.workers), {
    code: 'invalid-federation',
  });
  await scene.catalog.settings.write({ allowedImageRepositories: ['ghcr.io/org'] });
  await assert.rejects(updateWorker(NAME, change(2), made.keyId, scene.workers), { code: 'image-refused' });
  await releaseWorker(NAME, 'detach', made.keyId, scene.workers);
  await assert.rejects(updateWorker(NAME, change(2), made.keyId, scene.workers), { code: 'federation-gone' });
});
