import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { Client, CopyConditions } from 'minio';
import { ANA, randomContent, startStore } from './start-store.ts';

const bucket = 'photos';

async function startWithClient() {
  const store = await startStore();
  const minio = new Client({
    endPoint: '127.0.0.1',
    port: store.port,
    useSSL: false,
    pathStyle: true,
    partSize: 5 * 1024 * 1024,
    accessKey: ANA.accessKey,
    secretKey: ANA.secret.reveal(),
  });
  await minio.makeBucket(bucket);
  return { ...store, minio, [Symbol.asyncDispose]: () => store[Symbol.asyncDispose]() };
}

async function collected(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

test('minio client: it creates and finds buckets', async () => {
  await using store = await startWithClient();
  assert.equal(await store.minio.bucketExists(bucket), true);
  assert.equal(await store.minio.bucketExists('nowhere'), false);
  assert.deepEqual(
    (await store.minio.listBuckets()).map(({ name }) => name),
    [bucket],
  );
  await store.minio.setBucketTagging(bucket, { a: 'one' });
  assert.deepEqual(await store.minio.getBucketTagging(bucket), [{ Key: 'a', Value: 'one' }]);
  await store.minio.removeBucket(bucket);
  assert.equal(await store.minio.bucketExists(bucket), false);
});

for (const size of [100, 13 * 1024 * 1024]) {
  test(`minio client: it puts and gets ${size} bytes, of known length and as a stream`, async () => {
    await using store = await startWithClient();
    const bytes = randomContent(size);
    await store.minio.putObject(bucket, 'a b', bytes, size, { 'X-Amz-Meta-Camera': 'one' });
    await store.minio.putObject(bucket, 'stream', Readable.from([bytes.subarray(0, 50), bytes.subarray(50)]));
    assert.ok(bytes.equals(await collected(await store.minio.getObject(bucket, 'a b'))));
    assert.ok(bytes.equals(await collected(await store.minio.getObject(bucket, 'stream'))));
    assert.ok(
      bytes.subarray(10, 30).equals(await collected(await store.minio.getPartialObject(bucket, 'a b', 10, 20))),
    );
    const stat = await store.minio.statObject(bucket, 'a b');
    assert.deepEqual([stat.size, stat.metaData['camera']], [size, 'one']);
  });
}

test('minio client: it lists, copies and removes objects', async () => {
  await using store = await startWithClient();
  const keys = ['in/a b', 'in/ü', 'in/deep/x', 'out/y'];
  for (const key of keys) await store.minio.putObject(bucket, key, key);
  const list = async (prefix: string, recursive: boolean) => {
    const names: string[] = [];
    for await (const item of store.minio.listObjectsV2(bucket, prefix, recursive)) names.push(item.name ?? item.prefix);
    return names.toSorted();
  };
  assert.deepEqual(await list('', true), keys.toSorted());
  assert.deepEqual(await list('in/', false), ['in/a b', 'in/deep/', 'in/ü'].toSorted());
  await store.minio.copyObject(bucket, 'copy', `/${bucket}/in/a b`, new CopyConditions());
  assert.equal((await collected(await store.minio.getObject(bucket, 'copy'))).toString(), 'in/a b');
  await store.minio.removeObject(bucket, 'copy');
  await store.minio.removeObjects(bucket, keys);
  assert.deepEqual(await list('', true), []);
});
