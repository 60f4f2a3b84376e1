import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as s3 from '@aws-sdk/client-s3';
import { codeOf, randomContent, startStore } from './start-store.ts';

const Bucket = 'photos';

async function startWithBucket() {
  const started = await startStore();
  const client = started.client();
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  const put = (Key: string, Body: string | Buffer = Key, rest: Partial<s3.PutObjectCommandInput> = {}) =>
    client.send(new s3.PutObjectCommand({ Bucket, Key, Body, ...rest }));
  const get = (Key: string, rest: Partial<s3.GetObjectCommandInput> = {}) =>
    client.send(new s3.GetObjectCommand({ Bucket, Key, ...rest }));
  const bytes = async (Key: string, rest: Partial<s3.GetObjectCommandInput> = {}) =>
    Buffer.from((await (await get(Key, rest)).Body?.transformToByteArray()) ?? []);
  return { ...started, client, put, get, bytes, [Symbol.asyncDispose]: () => started[Symbol.asyncDispose]() };
}

for (const size of [0, 1, 16 * 1024, 16 * 1024 + 1, 3_000_000]) {
  test(`objects: ${size} bytes are returned unchanged`, async () => {
    await using store = await startWithBucket();
    const content = randomContent(size);
    const { ETag } = await store.put('a', content);
    assert.ok(content.equals(await store.bytes('a')));
    const head = await store.client.send(new s3.HeadObjectCommand({ Bucket, Key: 'a' }));
    assert.equal(head.ContentLength, size);
    assert.equal(head.ETag, ETag);
    assert.deepEqual(store.reported, []);
  });
}

test('objects: headers, metadata and tags are stored', async () => {
  await using store = await startWithBucket();
  await store.put('a', 'x', {
    ContentType: 'image/png',
    CacheControl: 'max-age=60',
    ContentDisposition: 'attachment',
    ContentEncoding: 'gzip',
    ContentLanguage: 'es',
    Metadata: { camera: 'one', 'two-words': 'b c' },
    Tagging: 'a=1&b=2',
  });
  const got = await store.get('a');
  await got.Body?.transformToByteArray();
  assert.deepEqual(
    [got.ContentType, got.CacheControl, got.ContentDisposition, got.ContentEncoding, got.ContentLanguage],
    ['image/png', 'max-age=60', 'attachment', 'gzip', 'es'],
  );
  assert.deepEqual(got.Metadata, { camera: 'one', 'two-words': 'b c' });
  assert.equal(got.TagCount, 2);
});

test('objects: keys that look like paths or escapes are ordinary keys', async () => {
  await using store = await startWithBucket();
  const keys = [
    '..',
    '../../etc/passwd',
    '.',
    'a',
    'a/',
    'a/b',
    'a//b',
    '/',
    '/a',
    'a\0b',
    'ünï code',
    '\u{1f600}',
    'a+b c%20&=?#',
    'é'.repeat(512),
  ];
  for (const key of keys) await store.put(key, `content of ${key}`);
  for (const key of keys) assert.equal((await store.bytes(key)).toString(), `content of ${key}`, key);
  const { Contents = [] } = await store.client.send(new s3.ListObjectsV2Command({ Bucket, EncodingType: 'url' }));
  const listed = Contents.map(({ Key = '' }) => decodeURIComponent(Key));
  assert.deepEqual(new Set(listed), new Set(keys));
  assert.equal(await codeOf(store.put('é'.repeat(513))), 'KeyTooLongError');
});

test('get object: ranges can be read', async () => {
  await using store = await startWithBucket();
  for (const size of [100, 100_000]) {
    const content = randomContent(size);
    await store.put('a', content);
    assert.ok(content.subarray(10, 20).equals(await store.bytes('a', { Range: 'bytes=10-19' })));
    assert.ok(content.subarray(-7).equals(await store.bytes('a', { Range: 'bytes=-7' })));
    const { ContentRange, $metadata } = await store.get('a', { Range: 'bytes=90-' });
    assert.equal(ContentRange, `bytes 90-${size - 1}/${size}`);
    assert.equal($metadata.httpStatusCode, 206);
    assert.equal(await codeOf(store.get('a', { Range: `bytes=${size}-` })), 'InvalidRange');
  }
});

test('get object: conditions on ETag and modification time are checked', async () => {
  await using store = await startWithBucket();
  const { ETag = '' } = await store.put('a');
  const status = async (rest: Partial<s3.GetObjectCommandInput>) => {
    try {
      const got = await store.get('a', rest);
      await got.Body?.transformToByteArray();
      return got.$metadata.httpStatusCode;
    } catch (error) {
      return (error as s3.S3ServiceException).$metadata.httpStatusCode;
    }
  };
  const [before, after] = [new Date(Date.now() - 60_000), new Date(Date.now() + 60_000)];
  assert.equal(await status({ IfMatch: ETag }), 200);
  assert.equal(await status({ IfMatch: '"other"' }), 412);
  assert.equal(await status({ IfNoneMatch: ETag }), 304);
  assert.equal(await status({ IfNoneMatch: '"other"' }), 200);
  assert.equal(await status({ IfModifiedSince: before }), 200);
  assert.equal(await status({ IfModifiedSince: after }), 304);
  assert.equal(await status({ IfUnmodifiedSince: before }), 412);
  assert.equal(await status({ IfUnmodifiedSince: after }), 200);
});

test('put object: write conditions are checked, and of concurrent If-None-Match writes one succeeds', async () => {
  await using store = await startWithBucket();
  const codes = await Promise.all(
    Array.from({ length: 12 }, (_, n) => codeOf(store.put('a', `writer ${n}`, { IfNoneMatch: '*' }))),
  );
  assert.equal(codes.filter((code) => code === 'no error').length, 1);
  assert.equal(codes.filter((code) => code === 'PreconditionFailed').length, 11);
  const { ETag = '' } = await store.client.send(new s3.HeadObjectCommand({ Bucket, Key: 'a' }));
  assert.equal(await codeOf(store.put('a', 'x', { IfMatch: '"0123"' })), 'PreconditionFailed');
  assert.equal(await codeOf(store.put('missing', 'x', { IfMatch: ETag })), 'NoSuchKey');
  assert.equal(await codeOf(store.put('a', 'x', { IfMatch: ETag })), 'no error');
});

test('objects: a missing key is NoSuchKey, and deleting it succeeds', async () => {
  await using store = await startWithBucket();
  assert.equal(await codeOf(store.get('a')), 'NoSuchKey');
  assert.equal(await codeOf(store.client.send(new s3.HeadObjectCommand({ Bucket, Key: 'a' }))), 'NotFound');
  assert.equal(await codeOf(store.client.send(new s3.DeleteObjectCommand({ Bucket, Key: 'a' }))), 'no error');
  assert.equal(
    await codeOf(store.client.send(new s3.GetObjectCommand({ Bucket: 'nowhere', Key: 'a' }))),
    'NoSuchBucket',
  );
});

test('delete objects: many keys are deleted at once, with and without quiet mode', async () => {
  await using store = await startWithBucket();
  const keys = Array.from({ length: 40 }, (_, n) => `in/<${n}> & "more"`);
  await Promise.all(keys.map((key) => store.put(key)));
  const remove = (Quiet: boolean, names: string[]) =>
    store.client.send(
      new s3.DeleteObjectsCommand({ Bucket, Delete: { Quiet, Objects: names.map((Key) => ({ Key })) } }),
    );
  const { Deleted = [] } = await remove(false, [...keys.slice(0, 30), 'missing']);
  assert.equal(Deleted.length, 31);
  const { Deleted: quiet } = await remove(true, keys.slice(30));
  assert.equal(quiet, undefined);
  const { usage } = store.store.describeBucket(Bucket) ?? {};
  assert.deepEqual(usage, { objects: 0, bytes: 0 });
});

test('copy object: the copy is independent, with the description of its source or a new one', async () => {
  await using store = await startWithBucket();
  const content = randomContent(100_000);
  await store.put('dir/ä b+c', content, { Metadata: { a: '1' }, ContentType: 'image/png' });
  const copy = (Key: string, rest: Partial<s3.CopyObjectCommandInput> = {}) =>
    store.client.send(
      new s3.CopyObjectCommand({ Bucket, Key, CopySource: `/${Bucket}/${encodeURIComponent('dir/ä b+c')}`, ...rest }),
    );
  await copy('one');
  await copy('two', { MetadataDirective: 'REPLACE', Metadata: { b: '2' }, ContentType: 'text/plain' });
  await store.client.send(new s3.DeleteObjectCommand({ Bucket, Key: 'dir/ä b+c' }));
  assert.ok(content.equals(await store.bytes('one')));
  assert.ok(content.equals(await store.bytes('two')));
  const [one, two] = [await store.get('one'), await store.get('two')];
  await Promise.all([one.Body?.transformToByteArray(), two.Body?.transformToByteArray()]);
  assert.deepEqual([one.Metadata, one.ContentType], [{ a: '1' }, 'image/png']);
  assert.deepEqual([two.Metadata, two.ContentType], [{ b: '2' }, 'text/plain']);
  assert.equal(await codeOf(copy('three')), 'NoSuchKey');
  const onItself = { CopySource: `${Bucket}/one` };
  assert.equal(await codeOf(copy('one', onItself)), 'InvalidRequest');
  assert.equal(await codeOf(copy('four', { ...onItself, CopySourceIfMatch: '"other"' })), 'PreconditionFailed');
  assert.equal(await codeOf(copy('four', { ...onItself, CopySourceIfMatch: one.ETag })), 'no error');
});

test('objects: tags are set and removed', async () => {
  await using store = await startWithBucket();
  await store.put('a');
  const TagSet = [{ Key: 'a', Value: '1 & 2' }];
  await store.client.send(new s3.PutObjectTaggingCommand({ Bucket, Key: 'a', Tagging: { TagSet } }));
  const tags = () => store.client.send(new s3.GetObjectTaggingCommand({ Bucket, Key: 'a' }));
  assert.deepEqual((await tags()).TagSet, TagSet);
  await store.client.send(new s3.DeleteObjectTaggingCommand({ Bucket, Key: 'a' }));
  assert.deepEqual((await tags()).TagSet, []);
  const eleven = Array.from({ length: 11 }, (_, n) => ({ Key: `k${n}`, Value: '' }));
  const tooMany = new s3.PutObjectTaggingCommand({ Bucket, Key: 'a', Tagging: { TagSet: eleven } });
  assert.equal(await codeOf(store.client.send(tooMany)), 'InvalidTag');
});

test('objects: GetObjectAttributes returns the requested attributes', async () => {
  await using store = await startWithBucket();
  await store.put('a', 'hello');
  const { ObjectSize, Checksum, ETag } = await store.client.send(
    new s3.GetObjectAttributesCommand({ Bucket, Key: 'a', ObjectAttributes: ['ObjectSize', 'Checksum', 'ETag'] }),
  );
  assert.deepEqual([ObjectSize, Checksum?.ChecksumCRC32, ETag], [5, 'NhCmhg==', '5d41402abc4b2a76b9719d911017c592']);
});

test('objects: unsupported requests are rejected, not ignored', async () => {
  await using store = await startWithBucket();
  assert.equal(await codeOf(store.put('a', 'x', { ServerSideEncryption: 'AES256' })), 'NotImplemented');
  assert.equal(await codeOf(store.get('a', { VersionId: 'abc' })), 'NoSuchVersion');
  const website = new s3.GetBucketWebsiteCommand({ Bucket });
  assert.equal(await codeOf(store.client.send(website)), 'NotImplemented');
  const metadata = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`key${n}`, 'x'.repeat(100)]));
  assert.equal(await codeOf(store.put('a', 'x', { Metadata: metadata })), 'MetadataTooLarge');
});

test('get object: a reader gets the complete old object if it is replaced meanwhile', async () => {
  await using store = await startWithBucket();
  const [old, young] = [randomContent(8_000_000), randomContent(8_000_000)];
  await store.put('a', old);
  const { Body } = await store.get('a');
  await store.put('a', young);
  await store.client.send(new s3.DeleteObjectCommand({ Bucket, Key: 'a' }));
  assert.ok(old.equals(Buffer.from((await Body?.transformToByteArray()) ?? [])));
});
