import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import type { Version } from '../../lib/version.ts';
import type { JournalState } from '../../ports/index.ts';
import { createService, updateService } from '../../services/index.ts';
import { admin, alice, bob } from '../../services/services.fixture.ts';
import { adoptWorker } from './adopt-worker.ts';
import { createWorker } from './create-worker.ts';
import { deleteMemberData } from './member-key.ts';
import { releaseWorker } from './release-worker.ts';
import { writeTombstone } from './tombstones.ts';
import { updateWorker } from './update-worker.ts';
import { NAME, OWN, openScene, order, WORKER } from './workers.fixture.ts';

test('adopt: the service gets the coordinator’s definition, and keeps uid, owner, token and buckets', async () => {
  await using scene = openScene();
  const { service: before, version } = await scene.own();
  const { buckets } = await scene.look();
  const made = order();
  await adoptWorker(alice, made, version, scene.workers);
  const service = (await scene.get())?.service;
  assert.equal(service?.definition.script, 'echo worker');
  assert.deepEqual(service?.federation, {
    role: 'worker',
    uid: made.uid,
    revision: 1,
    keyId: made.keyId,
    digest: made.digest,
    origin: made.origin,
    adopted: true,
  });
  for (const key of ['uid', 'owner', 'ownerName', 'namespace'] as const) assert.equal(service?.[key], before[key]);
  assert.ok(service?.token.equals(before.token));
  const seen = await scene.look();
  assert.deepEqual(
    seen.buckets,
    buckets.map((bucket) => ({ ...bucket, rules: [] })),
    'nothing is reported to it any more',
  );
  assert.deepEqual(seen.secrets[`service/${before.namespace}/${NAME}`], {
    PASSWORD: 'worker-password',
    EXTRA: 'worker-extra',
  });
  assert.deepEqual(seen.journal, []);
});

test('adopt: its jobs are not ended, neither at the adoption nor when it is restored', async () => {
  await using scene = openScene();
  const { version } = await scene.own();
  const made = order();
  await adoptWorker(alice, made, version, scene.workers);
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  assert.deepEqual(scene.forgotten, []);
});

test('adopt: an undo restores the service byte for byte, with another version', async () => {
  await using scene = openScene();
  const { version } = await scene.own();
  await scene.server.putObject({ bucket: 'demo', key: 'in/file' }, Buffer.from('data'), {});
  const before = await scene.look();
  const made = order();
  await adoptWorker(alice, made, version, scene.workers);
  const change = { revision: 2, digest: 'a'.repeat(64), definition: { ...WORKER, script: 'echo later' } };
  await updateWorker(NAME, change, made.keyId, scene.workers);
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  assert.deepEqual(await scene.look(), before);
  assert.notEqual((await scene.get())?.version, version);
});

test('adopt: a repeated or concurrent adoption is a no-op', async () => {
  await using scene = openScene();
  const { version } = await scene.own();
  const before = await scene.look();
  const made = order();
  await Promise.all(Array.from({ length: 4 }, () => adoptWorker(alice, made, version, scene.workers)));
  await adoptWorker(alice, made, version, scene.workers);
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  assert.deepEqual(await scene.look(), before);
});

test('adopt: only the owner may allow it, not another user, and not the administrator for a user', async () => {
  await using scene = openScene();
  const { version } = await scene.own();
  const before = await scene.look();
  for (const who of [bob, admin]) {
    await assert.rejects(adoptWorker(who, order(), version, scene.workers), { code: 'member-taken' });
  }
  assert.deepEqual(await scene.look(), before);
  const theirs = await createService(admin, { ...OWN, name: 'theirs', input: [], output: [] }, scene.catalog);
  const made = order({ name: 'theirs', member: 'b/theirs' }, { ...WORKER, name: 'theirs' });
  await adoptWorker(admin, made, theirs.version, scene.workers);
});

test('adopt: a service that is missing, or has another version than the probe found, is rejected', async () => {
  await using scene = openScene();
  await assert.rejects(adoptWorker(alice, order(), 'v' as Version, scene.workers), { code: 'old-version' });
  const { version } = await scene.own();
  await updateService(alice, { ...OWN, script: 'echo newer' }, undefined, scene.catalog);
  const before = await scene.look();
  await assert.rejects(adoptWorker(alice, order(), version, scene.workers), { code: 'old-version' });
  assert.deepEqual(await scene.look(), before);
});

test('adopt: a member of one federation is not adopted by another', async () => {
  await using scene = openScene();
  await createWorker(alice, order(), scene.workers);
  const before = await scene.look();
  const version = (await scene.get())?.version as Version;
  await assert.rejects(adoptWorker(alice, order(), version, scene.workers), { code: 'member-taken' });
  assert.deepEqual(await scene.look(), before);
});

test('adopt: concurrent adoption and undo restore the original service, in either order', async () => {
  await using scene = openScene();
  let { version } = await scene.own();
  const before = await scene.look();
  for (let round = 0; round < 20; round++) {
    const made = order();
    const adopting = adoptWorker(alice, made, version, scene.workers).catch((error) =>
      assert.match(error.code, /^(federation-gone|old-version)$/),
    );
    for (let turn = 0; turn < round; turn++) await scene.catalog.journal.claim('none', version);
    await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
    await adopting;
    assert.deepEqual(await scene.look(), before);
    version = (await scene.get())?.version ?? version;
  }
});

test('adopt: an undo that found nothing does not delete what a concurrent adoption has saved', async () => {
  await using scene = openScene();
  const { version } = await scene.own();
  const before = await scene.look();
  const made = order();
  const { catalog } = scene.workers;
  const journal = changedIn(catalog.journal, {
    async begin(key: string, state: JournalState) {
      if (key.startsWith('worker/'))
        await writeTombstone(made.keyId, { service: NAME, reason: 'ended-by-coordinator', ending: 'undo' }, catalog);
      return catalog.journal.begin(key, state);
    },
  });
  const secrets = changedIn(catalog.secrets, {
    async put(...args: Parameters<typeof catalog.secrets.put>) {
      const written = await catalog.secrets.put(...args);
      if (args[1].startsWith('before/')) await deleteMemberData(made.keyId, catalog);
      return written;
    },
  });
  const workers = { ...scene.workers, catalog: { ...catalog, journal, secrets } };
  await assert.rejects(adoptWorker(alice, made, version, workers), { code: 'federation-gone' });
  assert.deepEqual(await scene.look(), before);
});

test('adopt: of a concurrent adoption and change of the owner one is rejected, and both are complete', async () => {
  await using scene = openScene();
  const { version } = await scene.own();
  const made = order();
  const mine = { ...OWN, script: 'echo mine', environment: { secrets: { PASSWORD: 'new-password' } } };
  const [adopted] = await Promise.allSettled([
    adoptWorker(alice, made, version, scene.workers),
    updateService(alice, mine, version, scene.catalog),
  ]);
  if (adopted.status === 'fulfilled') await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  const { secrets, services } = await scene.look();
  const script = services[0]?.definition.script;
  const [password] = Object.values(secrets).map(({ PASSWORD }) => PASSWORD);
  assert.ok(
    (script === 'echo mine' && password === 'new-password') || (script === 'echo own' && password === 'own-password'),
  );
});

test('adopt: a bucket that was deleted meanwhile does not prevent the restore', async () => {
  await using scene = openScene();
  const { service, version } = await scene.own();
  const made = order();
  await adoptWorker(alice, made, version, scene.workers);
  await scene.objects.removeBucket('demo');
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  assert.deepEqual((await scene.get())?.service.definition, service.definition);
});
