import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { before, type TestContext, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import { TEST_CERTIFICATE } from '../../lib/http/certificate.fixture.ts';
import { Secret } from '../../lib/secret.ts';
import { davServer } from '../../staging/transfers/dav-server.fixture.ts';
import { StagingError } from '../../staging/transfers/errors.ts';
import { MANAGER, openStore, scene } from './commit.fixture.ts';
import type { CommitDeps } from './commit.ts';
import { stagingArea } from './staging-area.ts';

const trusted = getCACertificates('default');
before(() => setDefaultCACertificates([...trusted, TEST_CERTIFICATE]));

const MARK = 'svc-job-1/3';

/** A job whose results go to our own store, to another store, and to a WebDAV server. */
async function several(t: TestContext, secretKey = MANAGER.secret) {
  const far = await openStore(t);
  const dav = await davServer(t);
  const { hostname, login, password } = dav.access;
  const namedStores: CommitDeps['namedStores'] = new Map([
    [
      'minio.far',
      {
        type: 'minio',
        endpoint: far.endpoint,
        region: 'us-east-1',
        accessKey: new Secret(MANAGER.accessKey),
        secretKey,
        verify: true,
      },
    ],
    ['webdav.dav', { type: 'webdav', hostname, login, password }],
  ]);
  const output = [
    { storage_provider: 'minio', path: 'out/r' },
    { storage_provider: 'minio.far', path: 'far/results' },
    { storage_provider: 'webdav.dav', path: 'dav/results', suffix: ['.txt'] },
  ];
  const made = await scene(t, output, { namedStores });
  await made.store.bucket('out');
  await far.bucket('far');
  return { ...made, far, dav };
}

test('commit: files are written to other providers too, with the keys of the origin and by the same rules', async (t) => {
  const { store, far, dav, stage, commit, deps } = await several(t);
  const manifest = await stage({ 'sub/ä.txt': 'A', b: 'B' });
  assert.deepEqual(await commit(manifest), { outcome: 'committed', objects: 5, notes: [] });
  assert.deepEqual(await store.content('out'), { 'r/b': `B by ${MARK}`, 'r/sub/ä.txt': `A by ${MARK}` });
  assert.deepEqual(await far.content('far'), { 'results/b': `B by ${MARK}`, 'results/sub/ä.txt': `A by ${MARK}` });
  assert.deepEqual(
    [...dav.files].map(([path, bytes]) => `${path}: ${bytes.toString()}`),
    ['dav/results/sub/ä.txt: A'],
  );
  assert.deepEqual(readdirSync(deps.directory), [], 'nothing stays on the way');
});

test('commit: a repeated commit writes nothing to a store that can keep the mark', async (t) => {
  const { store, far, stage, commit } = await several(t);
  const manifest = await stage({ 'a.txt': 'A', b: 'B' });
  for (let time = 0; time < 3; time++) assert.equal((await commit(manifest)).outcome, 'committed');
  assert.deepEqual([store.events().length, far.events().length], [2, 2]);
});

test('commit: a provider that rejects a file fails the job before events of our own store trigger other jobs, and the message says why', async (t) => {
  const { store, stage, commit, deps } = await several(t, new Secret('wrong'));
  const result = await commit(await stage({ b: 'B' }));
  assert.deepEqual(result, {
    outcome: 'failed',
    reason: 'OutputFailed',
    message: 'the output "b" could not be written to minio.far, bucket "far": the secret key is wrong',
  });
  assert.deepEqual([store.events(), readdirSync(deps.directory)], [[], []]);
});

for (const [what, spoil, message] of [
  ['was changed', 'put', /the output "b" was changed after/],
  ['is gone', 'delete', /the output "b" is not there/],
] as const) {
  test(`commit: a staged file that ${what} is not written anywhere`, async (t) => {
    const { far, store, stage, commit, record, deps } = await several(t);
    const manifest = await stage({ b: 'B' });
    const at = { bucket: 'oscar-staging', key: `${stagingArea(record, 3, deps.objects).files}b` };
    if (spoil === 'put') await store.server.putObject(at, Buffer.from('changed'));
    else await store.server.deleteObject(at);
    const result = await commit(manifest);
    assert.ok(result.outcome === 'failed');
    assert.match(result.message, message);
    assert.deepEqual(await far.content('far'), {});
  });
}

for (const [what, code] of [
  ['nobody moves files at the moment', 'staging-unavailable'],
  ['our own store does not answer', 'input-failed'],
] as const) {
  test(`commit: throws so that it is retried: ${what}`, async (t) => {
    const { far, store, stage, commit, deps } = await several(t);
    const manifest = await stage({ b: 'B' });
    const fetch = () => Promise.reject(new StagingError(code, 'not now'));
    await assert.rejects(commit(manifest, { staging: { ...deps.staging, fetch } }), { code });
    assert.deepEqual([store.events(), await far.content('far')], [[], {}]);
    assert.equal((await commit(manifest)).outcome, 'committed');
  });
}

test('commit: the message says that a provider that is not in the definition has no keys', async (t) => {
  const made = await scene(t, [{ storage_provider: 'minio.nowhere', path: 'xyz/y' }]);
  const result = await made.commit(await made.stage({ b: 'B' }));
  assert.ok(result.outcome === 'failed');
  assert.match(result.message, /minio\.nowhere.*there are no keys for this store/);
});

test('commit: the keys that read staging are revoked, and no directory is created if none is needed', async (t) => {
  const { deps, stage, commit } = await several(t);
  const issued: string[] = [];
  const ended: string[] = [];
  const objects = changedIn(deps.objects, {
    async issue(...given) {
      const keys = await deps.objects.issue(...given);
      issued.push(keys.id);
      return keys;
    },
    async revoke(id) {
      ended.push(id);
      await deps.objects.revoke(id);
    },
  });
  const manifest = await stage({ b: 'B' });
  await commit(manifest, { objects });
  assert.deepEqual([issued.length, ended], [1, issued]);

  const plain = await scene(t, [{ storage_provider: 'minio', path: 'out/r' }]);
  await plain.store.bucket('out');
  await plain.commit(await plain.stage({ b: 'B' }));
  assert.equal(existsSync(plain.deps.directory), false);
});

for (const [what, code, outcome] of [
  ['is away', 'store-away', 'held'],
  ['is full', 'store-full', 'held'],
  ['rejects the file', 'output-failed', 'failed'],
] as const) {
  test(`commit: results for a provider that ${what} are ${outcome === 'held' ? 'held and written later' : 'failed with the reason'}`, async (t) => {
    const { store, far, stage, commit, deps } = await several(t);
    const manifest = await stage({ b: 'B' });
    const upload = () => Promise.reject(new StagingError(code, 'the reason'));
    const first = commit(manifest, { staging: { ...deps.staging, upload } });
    if (outcome === 'failed') {
      assert.deepEqual(await first, { outcome: 'failed', reason: 'OutputFailed', message: 'the reason' });
      return;
    }
    await assert.rejects(first, { code, message: 'the reason' });
    assert.deepEqual([store.events(), await far.content('far')], [[], {}], 'nothing is written meanwhile');
    assert.equal((await commit(manifest)).outcome, 'committed');
    assert.deepEqual(Object.keys(await far.content('far')), ['results/b']);
  });
}
