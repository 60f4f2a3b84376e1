import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as s3 from '@aws-sdk/client-s3';
import { codeOf, startStore } from './start-store.ts';

const Bucket = 'photos';
const KEYS = ['a', 'b/1', 'b/2', 'b/c/3', 'd/', 'e & <f>', 'z', 'ö', '\uffee', '\u{1f600}'];

async function startWithKeys() {
  const store = await startStore();
  const client = store.client();
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  for (const Key of KEYS) await client.send(new s3.PutObjectCommand({ Bucket, Key, Body: Key }));
  return { client, [Symbol.asyncDispose]: () => store[Symbol.asyncDispose]() };
}

for (const EncodingType of [undefined, 'url'] as const) {
  const decode = (text = '') => (EncodingType ? decodeURIComponent(text) : text);
  test(`list objects: version 2 pages through all keys in the order of their bytes, encoding ${EncodingType}`, async () => {
    await using store = await startWithKeys();
    const keys: string[] = [];
    let ContinuationToken: string | undefined;
    do {
      const page: s3.ListObjectsV2CommandOutput = await store.client.send(
        new s3.ListObjectsV2Command({ Bucket, MaxKeys: 3, ContinuationToken, EncodingType }),
      );
      keys.push(...(page.Contents ?? []).map(({ Key }) => decode(Key)));
      ContinuationToken = page.NextContinuationToken;
      assert.equal(page.IsTruncated, ContinuationToken !== undefined);
    } while (ContinuationToken);
    assert.deepEqual(keys, KEYS);
  });

  test(`list objects: version 1 groups by a delimiter and continues from its marker, encoding ${EncodingType}`, async () => {
    await using store = await startWithKeys();
    const names: string[] = [];
    let Marker: string | undefined;
    do {
      const page: s3.ListObjectsCommandOutput = await store.client.send(
        new s3.ListObjectsCommand({ Bucket, Delimiter: '/', MaxKeys: 2, Marker, EncodingType }),
      );
      names.push(...(page.Contents ?? []).map(({ Key }) => decode(Key)));
      names.push(...(page.CommonPrefixes ?? []).map(({ Prefix }) => decode(Prefix)));
      Marker = page.IsTruncated ? decode(page.NextMarker) : undefined;
    } while (Marker);
    const expected = ['a', 'b/', 'd/', 'e & <f>', 'z', 'ö', '\uffee', '\u{1f600}'];
    assert.deepEqual(names.toSorted(), expected.toSorted());
  });
}

test('list objects: prefix, delimiter and start can be combined', async () => {
  await using store = await startWithKeys();
  const page = await store.client.send(
    new s3.ListObjectsV2Command({ Bucket, Prefix: 'b/', Delimiter: '/', StartAfter: 'b/1', FetchOwner: true }),
  );
  assert.deepEqual(
    page.Contents?.map(({ Key }) => Key),
    ['b/2'],
  );
  assert.deepEqual(
    page.CommonPrefixes?.map(({ Prefix }) => Prefix),
    ['b/c/'],
  );
  assert.equal(page.Contents?.[0]?.Owner?.ID, 'ana@egi.eu');
  assert.equal(page.KeyCount, 2);
});

test('list versions: each object has the version null', async () => {
  await using store = await startWithKeys();
  const { Versions = [] } = await store.client.send(new s3.ListObjectVersionsCommand({ Bucket, Prefix: 'b/' }));
  assert.deepEqual(
    Versions.map(({ Key, VersionId, IsLatest }) => [Key, VersionId, IsLatest]),
    [
      ['b/1', 'null', true],
      ['b/2', 'null', true],
      ['b/c/3', 'null', true],
    ],
  );
});

test('list objects: invalid parameters are rejected', async () => {
  await using store = await startWithKeys();
  const list = (rest: Partial<s3.ListObjectsV2CommandInput>) =>
    codeOf(store.client.send(new s3.ListObjectsV2Command({ Bucket, ...rest })));
  assert.equal(await list({ ContinuationToken: '***' }), 'InvalidArgument');
  assert.equal(await list({ MaxKeys: -1 }), 'InvalidArgument');
  assert.equal(await list({ EncodingType: 'rot13' as 'url' }), 'InvalidArgument');
});
