import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { ANA, BEN, randomContent, startStore, type TestStore } from './start-store.ts';

const bucket = 'photos';

async function startWithBucket() {
  const store = await startStore();
  await store.store.createBucket({ name: bucket, owner: ANA.accessKey, tags: { a: '1' }, madeBy: 'service-uid' });
  return { ...store, [Symbol.asyncDispose]: () => store[Symbol.asyncDispose]() };
}

async function content({ store }: Pick<TestStore, 'store'>, key: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of store.readObject({ bucket, key }).stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

test('in-process: the description of a bucket has all its properties and its usage', async () => {
  await using store = await startWithBucket();
  await store.store.putObject({ bucket, key: 'a' }, Buffer.from('12345'));
  await store.store.putObject({ bucket, key: 'b' }, randomContent(20_000));
  await store.store.putObject({ bucket, key: 'a' }, Buffer.from('1'));
  const { created, ...view } = store.store.describeBucket(bucket) ?? { created: 0 };
  assert.ok(created > 0);
  assert.deepEqual(view, {
    name: bucket,
    owner: ANA.accessKey,
    visibility: 'private',
    allowedUsers: [],
    tags: { a: '1' },
    madeBy: 'service-uid',
    quota: undefined,
    rules: [],
    usage: { objects: 2, bytes: 20_001 },
  });
  assert.deepEqual(await store.store.createBucket({ name: bucket, owner: BEN.accessKey }), {
    created: false,
    owner: ANA.accessKey,
  });
  await store.store.updateBucket(bucket, { madeBy: null, visibility: 'public' });
  const changed = store.store.describeBucket(bucket);
  assert.deepEqual([changed?.madeBy, changed?.visibility, changed?.tags], [undefined, 'public', { a: '1' }]);
});

test('in-process: two concurrent changes of a bucket are both applied', async () => {
  await using store = await startWithBucket();
  await Promise.all([
    store.store.updateBucket(bucket, { visibility: 'public' }),
    store.store.updateBucket(bucket, { quota: 100 }),
    store.store.putRule(bucket, { id: 'r', prefix: 'in/' }),
  ]);
  const { visibility, quota, rules } = store.store.describeBucket(bucket) ?? {};
  assert.deepEqual([visibility, quota, rules?.length], ['public', 100, 1]);
});

test('in-process: a put during the deletion of its bucket is rejected, or prevents the deletion', async () => {
  await using store = await startWithBucket();
  const [removed, put] = await Promise.allSettled([
    store.store.deleteBucket(bucket, { withContent: false }),
    store.store.putObject({ bucket, key: 'a' }, Buffer.from('x')),
  ]);
  assert.notEqual(removed.status, put.status);
});

test('in-process: buckets and objects are listed in pages', async () => {
  await using store = await startWithBucket();
  for (const name of ['b-1', 'b-2', 'b-3']) await store.store.createBucket({ name, owner: ANA.accessKey });
  assert.deepEqual(
    store.store.listBuckets({ limit: 2 }).map(({ name }) => name),
    ['b-1', 'b-2'],
  );
  assert.deepEqual(
    store.store.listBuckets({ limit: 9, after: 'b-2' }).map(({ name }) => name),
    ['b-3', bucket],
  );
  for (const key of ['a/1', 'a/2', 'b']) await store.store.putObject({ bucket, key }, Buffer.from('x'));
  const first = store.store.listObjects(bucket, { limit: 2 });
  assert.deepEqual([first.objects.map(({ key }) => key), first.next], [['a/1', 'a/2'], 'a/2']);
  const second = store.store.listObjects(bucket, { limit: 2, after: first.next ?? '' });
  assert.deepEqual([second.objects.map(({ key }) => key), second.next], [['b'], undefined]);
  assert.deepEqual(store.store.listObjects(bucket, { limit: 9, delimiter: '/' }).commonPrefixes, ['a/']);
});

test('in-process: a stream is written and read without buffering it', async () => {
  await using store = await startWithBucket();
  const pieces = Array.from({ length: 40 }, () => randomContent(100_000));
  const written = await store.store.writeObject(
    { bucket, key: 'a' },
    (async function* () {
      yield* pieces;
    })(),
  );
  assert.equal(written.size, 4_000_000);
  assert.ok(Buffer.concat(pieces).equals(await content(store, 'a')));
});

test('in-process: a destroyed reader releases the content', async () => {
  await using store = await startWithBucket();
  await store.store.putObject({ bucket, key: 'a' }, randomContent(3_000_000));
  const { stream } = store.store.readObject({ bucket, key: 'a' });
  for await (const chunk of stream) {
    assert.ok(chunk.length > 0);
    break;
  }
  assert.equal(await store.store.deleteObject({ bucket, key: 'a' }), true);
  assert.equal(await store.store.deleteObject({ bucket, key: 'a' }), false);
  await store.store.close();
  assert.deepEqual(contentFiles(store.directory), []);
});

test('in-process: a staged output is moved only if its ETag is the expected one', async () => {
  await using store = await startWithBucket();
  await store.store.createBucket({ name: 'oscar-staging', owner: 'oscar-manager' });
  const staged = { bucket: 'oscar-staging', key: 'job-1/out' };
  const bytes = randomContent(50_000);
  const { eTag } = await store.store.putObject(staged, bytes, { contentType: 'image/png', metadata: { a: '1' } });
  const to = { bucket, key: 'out/a.png' };
  await assert.rejects(store.store.copyObject(staged, to, { ifMatch: 'other', move: true }), {
    code: 'PreconditionFailed',
  });
  assert.equal(store.store.statObject(to), undefined);
  const moved = await store.store.copyObject(staged, to, {
    ifMatch: eTag,
    ifNoneMatch: '*',
    move: true,
    as: ANA.accessKey,
    metadata: { job: 'j-1' },
  });
  assert.deepEqual([moved.eTag, moved.contentType], [eTag, 'image/png']);
  assert.deepEqual(moved.headers, { 'x-amz-meta-a': '1', 'x-amz-meta-job': 'j-1' });
  assert.equal(store.store.statObject(staged), undefined);
  assert.ok(bytes.equals(await content(store, 'out/a.png')));
  await assert.rejects(store.store.copyObject(to, to, { move: true }), { code: 'InvalidRequest' });
  assert.deepEqual(store.store.describeBucket('oscar-staging')?.usage, { objects: 0, bytes: 0 });
});

const contentFiles = (directory: string) =>
  readdirSync(join(directory, 'content'), { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile())
    .map(({ name }) => name);

test('sweep: the next start removes only the files that a crash left', async () => {
  await using store = await startWithBucket();
  const bytes = randomContent(50_000);
  await store.store.putObject({ bucket, key: 'a' }, bytes);
  await store.store.close();
  const [kept = ''] = contentFiles(store.directory);
  writeFileSync(join(store.directory, 'content', 'ab', `ab${'0'.repeat(30)}`), 'orphan');
  writeFileSync(join(store.directory, 'unfinished', 'x'), 'half');
  await using again = await startStore({ directory: store.directory });
  await eventually(() => assert.deepEqual(contentFiles(store.directory), [kept]));
  await again.store.close();
  assert.deepEqual(readdirSync(join(store.directory, 'unfinished')), []);
  await using third = await startStore({ directory: store.directory });
  assert.ok(bytes.equals(await content(third, 'a')));
});

test('open: a directory that another store uses is rejected', async () => {
  await using store = await startWithBucket();
  await assert.rejects(startStore({ directory: store.directory }), {
    code: 'in-use',
    message: /in use by another process/,
  });
});
