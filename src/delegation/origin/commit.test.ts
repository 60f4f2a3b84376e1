import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { writeManifest } from '../../model/job/index.ts';
import { BOB, type Scene, scene } from './commit.fixture.ts';
import { stagingArea, sweepStaging } from './staging-area.ts';

const MARK = 'svc-job-1/3';
const output = (path: string, more: object = {}) => ({ storage_provider: 'minio', path, ...more });
const key = (name: string) => `svc/svc-job-1/3/files/${name}`;

test('commit: staged files are written to the output with the mark, one event each, in the name of the principal', async (t) => {
  const { store, stage, commit } = await scene(t, [output('out/results')]);
  await store.bucket('out');
  const manifest = await stage({ 'a.txt': 'A', 'sub/ä *?.txt': 'B', 'manifest.json': 'C', empty: '' });
  assert.deepEqual(await commit(manifest), { outcome: 'committed', objects: 4, notes: [] });
  const expected = {
    'results/a.txt': `A by ${MARK}`,
    'results/empty': ` by ${MARK}`,
    'results/manifest.json': `C by ${MARK}`,
    'results/sub/ä *?.txt': `B by ${MARK}`,
  };
  assert.deepEqual(await store.content('out'), expected);
  assert.deepEqual(
    store.events().toSorted(),
    Object.keys(expected).map((each) => `out/${each} ${BOB}`),
  );
});

test('commit: every file is written to every output whose filters it passes, as for a local job', async (t) => {
  const { store, stage, commit } = await scene(t, [
    output('out/all'),
    output('out/texts', { suffix: ['.txt'] }),
    output('other/r', { prefix: ['a', 'b'], suffix: ['.txt', '.md'] }),
  ]);
  for (const name of ['out', 'other']) await store.bucket(name);
  const manifest = await stage({ 'a.txt': '1', 'b.md': '2', 'c.txt': '3', d: '4' });
  assert.deepEqual(await commit(manifest), { outcome: 'committed', objects: 8, notes: [] });
  assert.deepEqual(Object.keys(await store.content('out')), [
    'all/a.txt',
    'all/b.md',
    'all/c.txt',
    'all/d',
    'texts/a.txt',
    'texts/c.txt',
  ]);
  assert.deepEqual(Object.keys(await store.content('other')), ['r/a.txt', 'r/b.md']);
});

test('commit: with isolation, results go to the bucket of the input file', async (t) => {
  const definition = {
    isolation_level: 'USER',
    visibility: 'restricted',
    allowed_users: [BOB],
    input: [{ storage_provider: 'minio', path: 'svc-in/in' }],
  };
  const { store, stage, commit, service } = await scene(t, [output('svc-in/out')], { definition });
  const { inputFolders } = await import('../../model/service/index.ts');
  const own = inputFolders(service).find(({ user }) => user === BOB)?.bucket;
  assert.ok(own);
  for (const name of ['svc-in', own]) await store.bucket(name);
  const manifest = await stage({ a: 'x' });
  assert.equal((await commit(manifest, { eventBucket: own })).outcome, 'committed');
  assert.deepEqual([await store.content(own), await store.content('svc-in')], [{ 'out/a': `x by ${MARK}` }, {}]);
});

test('commit: a job without results is committed, and so is one whose service has no outputs', async (t) => {
  const { stage, commit, service } = await scene(t, [output('out/r')]);
  assert.deepEqual(await commit(await stage({})), { outcome: 'committed', objects: 0, notes: [] });
  const definition = { ...service.definition, output: [] };
  const manifest = await stage({ a: 'x' });
  const result = await commit(manifest, { service: { ...service, definition } });
  assert.deepEqual(result, { outcome: 'committed', objects: 0, notes: [] });
});

test('commit: a file whose key would be too long is left out, with a note', async (t) => {
  const folder = 'x'.repeat(500);
  const { store, stage, commit } = await scene(t, [output(`out/${folder}`)]);
  await store.bucket('out');
  const result = await commit(
    await stage({ ok: 'x', [`${'y'.repeat(250)}/${'y'.repeat(250)}/${'y'.repeat(100)}`]: 'x' }),
  );
  assert.equal(result.outcome, 'committed');
  assert.deepEqual(Object.keys(await store.content('out')), [`${folder}/ok`]);
  assert.match(result.outcome === 'committed' ? (result.notes[0] ?? '') : '', /would be longer than 1024 bytes/);
});

test('commit: only files in the manifest of the reported epoch are committed', async (t) => {
  const { store, stage, commit } = await scene(t, [output('out/r')]);
  await store.bucket('out');
  await stage({ a: 'of an older attempt', b: 'too' }, 2);
  const manifest = await stage({ a: 'x' });
  await store.server.putObject({ bucket: 'oscar-staging', key: key('late') }, Buffer.from('after the report'));
  assert.equal((await commit(manifest)).outcome, 'committed');
  assert.deepEqual(await store.content('out'), { 'r/a': `x by ${MARK}` });
});

test('commit: an existing object is replaced, as by a local job', async (t) => {
  const { store, stage, commit } = await scene(t, [output('out/r')]);
  await store.bucket('out');
  await store.server.putObject({ bucket: 'out', key: 'r/a' }, Buffer.from('old'));
  assert.equal((await commit(await stage({ a: 'new' }))).outcome, 'committed');
  assert.deepEqual(await store.content('out'), { 'r/a': `new by ${MARK}` });
});

test('protected outputs: an object of another input, of a job without label or of a user is a conflict, and nothing is written', async (t) => {
  const { store, stage, commit, record } = await scene(t, [output('out/r')]);
  await store.bucket('out');
  const first = await commit(await stage({ b: 'of one' }), { inputLabel: 'one' });
  assert.equal(first.outcome, 'committed');
  const other = { record: { ...record, epoch: 4 }, inputLabel: 'two' };
  const manifest = await stage({ a: 'x', b: 'y', c: 'z' }, 4);
  for (const { by, writer } of [
    { by: { 'oscar-attempt': 'job-0/1', 'oscar-input': 'one' }, writer: ', which "job-0/1" wrote' },
    { by: { 'oscar-attempt': 'job-0/1' }, writer: ', which "job-0/1" wrote' },
    { by: {}, writer: '' },
  ]) {
    await store.server.putObject({ bucket: 'out', key: 'r/b' }, Buffer.from('theirs'), { metadata: by });
    const before = await store.content('out');
    const result = await commit(manifest, other);
    assert.ok(result.outcome === 'failed', JSON.stringify(result));
    assert.equal(result.reason, 'OutputConflict');
    assert.ok(result.message.startsWith(`the output "b" would replace "out/r/b"${writer}: it is not a result`));
    assert.deepEqual(await store.content('out'), before);
  }
});

test('protected outputs: the same input replaces its results, and a commit that was interrupted goes on', async (t) => {
  const { store, stage, commit, record } = await scene(t, [output('out/r')]);
  await store.bucket('out');
  assert.equal((await commit(await stage({ a: '1', b: '1' }), { inputLabel: 'one' })).outcome, 'committed');
  const manifest = await stage({ a: '2', b: '2' }, 4);
  const again = { record: { ...record, epoch: 4 }, inputLabel: 'one' };
  assert.equal((await commit(manifest, again)).outcome, 'committed');
  const expected = { 'r/a': '2 by svc-job-1/4', 'r/b': '2 by svc-job-1/4' };
  assert.deepEqual(await store.content('out'), expected);
  await store.server.ackEvents(Number.MAX_SAFE_INTEGER);
  assert.equal((await commit(manifest, again)).outcome, 'committed');
  assert.deepEqual([await store.content('out'), store.events()], [expected, []]);
});

test('protected outputs: an object that appears after the check is not replaced', async (t) => {
  const { store, stage, commit, deps } = await scene(t, [output('out/r')]);
  await store.bucket('out');
  const { objects } = deps;
  const labels = objects.labels.bind(objects);
  t.mock.method(objects, 'labels', async (at: Parameters<typeof labels>[0]) => {
    const found = await labels(at);
    await store.server.putObject(at, Buffer.from('quicker'));
    return found;
  });
  const result = await commit(await stage({ a: 'x' }), { inputLabel: 'one' });
  assert.ok(result.outcome === 'failed' && result.reason === 'OutputConflict', JSON.stringify(result));
  assert.deepEqual(await store.content('out'), { 'r/a': 'quicker by somebody' });
});

test('staging: the files of all attempts of a job are removed, and those of no other job', async (t) => {
  const { store, stage, deps, record } = await scene(t, [output('out/r')]);
  await stage({ a: 'x' }, 2);
  await stage({ a: 'x', b: 'y' });
  const other = 'svc/svc-job-10/1/files/a';
  await store.server.putObject({ bucket: 'oscar-staging', key: other }, Buffer.from('x'));
  await sweepStaging(record, deps.objects);
  await sweepStaging(record, deps.objects);
  assert.deepEqual(Object.keys(await store.content('oscar-staging')), [other]);
});

interface Fault {
  readonly name: string;
  /** Breaks the staged attempt. May resolve to another digest for the report. */
  readonly spoil: (made: Scene, manifest: string) => Promise<string | undefined>;
  readonly message: RegExp;
}

/** Replaces the manifest, as a faulty target could. Resolves to its digest. */
async function putManifest({ store, record, deps }: Scene, bytes: Uint8Array): Promise<string> {
  const { bucket, manifest } = stagingArea(record, record.epoch, deps.objects);
  await store.server.putObject({ bucket, key: manifest }, bytes);
  return hash('sha256', bytes);
}

const FAULTS: readonly Fault[] = [
  {
    name: 'the manifest is missing',
    spoil: async ({ deps, record }) => {
      await sweepStaging(record, deps.objects);
      return undefined;
    },
    message: /list of the outputs .* cannot be used: it is not there/,
  },
  {
    name: 'the manifest has another digest',
    spoil: async (made) => {
      await putManifest(made, writeManifest([]));
      return undefined;
    },
    message: /it is not the one that was reported/,
  },
  {
    name: 'the manifest names a path outside of staging',
    spoil: (made) => {
      const files = [{ name: '../../../out/secret', size: 1, etag: 'x' }];
      return putManifest(made, writeManifest(files));
    },
    message: /"..\/..\/..\/out\/secret", which is no relative path/,
  },
  {
    name: 'the manifest is too large',
    spoil: (made) => putManifest(made, Buffer.alloc(33 * 1024 * 1024, ' ')),
    message: /has 34603008 bytes: at most 33554432 are read/,
  },
  {
    name: 'a file was changed after the report',
    spoil: async ({ store }) => {
      await store.server.putObject({ bucket: 'oscar-staging', key: key('b') }, Buffer.from('changed'));
      return undefined;
    },
    message: /the output "b" was changed after/,
  },
  {
    name: 'a reported file is missing',
    spoil: async ({ store }) => {
      await store.server.deleteObject({ bucket: 'oscar-staging', key: key('b') });
      return undefined;
    },
    message: /the output "b" is not there/,
  },
  {
    name: 'the bucket was removed',
    spoil: async ({ store }) => {
      await store.server.deleteBucket('out', { withContent: true });
      return undefined;
    },
    message: /the bucket "out" does not exist/,
  },
  {
    name: 'the bucket now belongs to another user',
    spoil: async ({ store }) => {
      await store.server.deleteBucket('out', { withContent: true });
      await store.bucket('out', 'mallory');
      return undefined;
    },
    message: /neither the owner of the service nor "bob-000002" may write to the bucket "out"/,
  },
  {
    name: 'the bucket is full',
    spoil: async ({ store }) => {
      await store.server.updateBucket('out', { quota: 1 });
      return undefined;
    },
    message: /the output "[ab]" could not be written: the bucket "out" is full/,
  },
];
for (const { name, spoil, message } of FAULTS) {
  test(`commit: fails with a message: ${name}`, async (t) => {
    const made = await scene(t, [output('out/r')]);
    await made.store.bucket('out');
    const manifest = await made.stage({ a: 'x', b: 'y' });
    const result = await made.commit((await spoil(made, manifest)) ?? manifest);
    assert.ok(result.outcome === 'failed', JSON.stringify(result));
    assert.equal(result.reason, 'OutputFailed');
    assert.match(result.message, message);
    const left = made.store.server.describeBucket('out') ? await made.store.content('out') : {};
    assert.ok(!('r/b' in left), 'what was wrong is not committed');
  });
}

for (const [who, owner, more] of [
  ['the principal’s own', BOB, {}],
  ['one that is shared with the owner', 'carol', { visibility: 'restricted', allowedUsers: ['alice-0001'] }],
  ['one that was made for the service', 'carol', { madeBy: '6f1c2a4e-0000-4000-8000-000000000001' }],
] as const) {
  test(`commit: may write to ${who} bucket`, async (t) => {
    const { store, stage, commit } = await scene(t, [output('out/r')]);
    await store.server.createBucket({ name: 'out', owner, ...more });
    assert.equal((await commit(await stage({ a: 'x' }))).outcome, 'committed');
  });
}
