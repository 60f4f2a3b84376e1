import assert from 'node:assert/strict';
import { join } from 'node:path';
import * as s3 from '@aws-sdk/client-s3';
import { DiskFiller, diskTest, MIB, type SmallDisk } from '../support/small-disk.ts';
import { startServeProcess } from './serve-process.ts';
import { codeOf, configFor, MANAGER } from './start-store.ts';

/** A store with a full disk rejects writes, and everything can still be deleted. */

const Bucket = 'photos';

/** Objects of this size are stored in the database. */
const SMALL = 12_000;

async function serve({ path, stack }: SmallDisk) {
  const server = stack.use(await startServeProcess(join(path, 'store'), { partBytes: '1' }));
  // No retries: these tests wait for the rejection.
  const client = new s3.S3Client({ ...configFor(server.endpoint, MANAGER), maxAttempts: 1 });
  stack.defer(() => client.destroy());
  const at = (Key: string) => ({ Bucket, Key });
  return {
    kill: () => server.kill(),
    client,
    put: (key: string, body: Buffer) => client.send(new s3.PutObjectCommand({ ...at(key), Body: body })),
    remove: (key: string) => client.send(new s3.DeleteObjectCommand(at(key))),
    async read(key: string): Promise<Buffer> {
      const { Body } = await client.send(new s3.GetObjectCommand(at(key)));
      return Buffer.from((await Body?.transformToByteArray()) ?? []);
    },
    async keys(): Promise<string[]> {
      const found: string[] = [];
      for await (const { Contents = [] } of s3.paginateListObjectsV2({ client }, { Bucket })) {
        found.push(...Contents.map(({ Key = '' }) => Key));
      }
      return found;
    },
  };
}

type Store = Awaited<ReturnType<typeof serve>>;

const contentOf = (key: string, size: number) => Buffer.alloc(size, key);

/** Puts objects until one is rejected because the disk is full. Resolves to the keys of the others. */
async function fill(store: Store, prefix: string, size: number, writers: number): Promise<string[]> {
  const taken: string[] = [];
  let refusal: unknown;
  let count = 0;
  const writer = async () => {
    while (!refusal) {
      const key = `${prefix}${count++}`;
      try {
        await store.put(key, contentOf(key, size));
        taken.push(key);
      } catch (error) {
        refusal ??= error;
      }
    }
  };
  await Promise.all(Array.from({ length: writers }, writer));
  assert.ok(refusal instanceof s3.S3ServiceException);
  assert.deepEqual([refusal.name, refusal.$metadata.httpStatusCode], ['XMinioStorageFull', 507]);
  assert.match(refusal.message, /disk .*full.*delete/i);
  assert.ok(taken.length > 0, 'nothing was put');
  return taken;
}

diskTest(
  'full disk: after objects in files have filled it, objects can be deleted and then put again',
  async (disk) => {
    const store = await serve(disk);
    await store.client.send(new s3.CreateBucketCommand({ Bucket }));
    new DiskFiller(disk.path).fillBut(14 * MIB);
    const taken = await fill(store, 'file', 3 * MIB, 1);
    assert.deepEqual(await store.keys(), taken.toSorted());
    const [first = '', second = '', last = ''] = taken;
    assert.notEqual(last, '');
    await store.remove(first);
    await store.remove(second);
    await store.put('new', contentOf('new', 3 * MIB));
    assert.ok(contentOf('new', 3 * MIB).equals(await store.read('new')));
    assert.ok(contentOf(last, 3 * MIB).equals(await store.read(last)));
  },
);

diskTest('full disk: after inline objects have filled it, they can be deleted and then put again', async (disk) => {
  const store = await serve(disk);
  await store.client.send(new s3.CreateBucketCommand({ Bucket }));
  await store.client.send(new s3.CreateBucketCommand({ Bucket: 'empty' }));
  const { UploadId } = await store.client.send(new s3.CreateMultipartUploadCommand({ Bucket, Key: 'upload' }));
  new DiskFiller(disk.path).fillBut(2 * MIB);
  const taken = await fill(store, 'small', SMALL, 8);
  assert.deepEqual(await store.keys(), taken.toSorted());
  await store.client.send(new s3.AbortMultipartUploadCommand({ Bucket, Key: 'upload', UploadId }));
  await store.client.send(new s3.DeleteBucketCommand({ Bucket: 'empty' }));
  // The database file never shrinks: new objects use the space of the deleted ones.
  for (let round = 0; round < 5; round++) {
    const gone = taken.splice(0, 4);
    for (const key of gone) await store.remove(key);
    for (const key of gone.slice(1)) await store.put(`${key}-again`, contentOf(key, SMALL));
    taken.push(...gone.slice(1).map((key) => `${key}-again`));
  }
  assert.deepEqual(await store.keys(), taken.toSorted());
  const Objects = taken.slice(0, 50).map((Key) => ({ Key }));
  const { Errors } = await store.client.send(new s3.DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
  assert.equal(Errors, undefined);
  assert.deepEqual(await store.keys(), taken.slice(50).toSorted());
});

diskTest(
  'full disk: if other files fill it, the store opens, everything can be deleted and writes are rejected',
  async (disk) => {
    const filler = new DiskFiller(disk.path);
    const first = await serve(disk);
    await first.client.send(new s3.CreateBucketCommand({ Bucket }));
    await first.client.send(new s3.CreateBucketCommand({ Bucket: 'empty' }));
    const { UploadId } = await first.client.send(new s3.CreateMultipartUploadCommand({ Bucket, Key: 'upload' }));
    const sizes = { a: SMALL, b: 100_000, c: SMALL, d: 200_000, e: SMALL };
    for (const [key, size] of Object.entries(sizes)) await first.put(key, contentOf(key, size));
    filler.fillBut(0);
    const refused = async (store: Store) =>
      assert.equal(await codeOf(store.put('e', contentOf('x', 5 * MIB))), 'XMinioStorageFull');
    await refused(first);
    assert.ok(contentOf('e', SMALL).equals(await first.read('e')), 'a refused request changes nothing');
    await first.remove('a');
    await first.remove('b');
    filler.fillBut(0);
    await refused(first);
    await first.kill();

    const second = await serve(disk);
    assert.deepEqual(await second.keys(), ['c', 'd', 'e']);
    await refused(second);
    await second.remove('c');
    filler.fillBut(0);
    await second.client.send(new s3.AbortMultipartUploadCommand({ Bucket, Key: 'upload', UploadId }));
    await second.client.send(new s3.DeleteBucketCommand({ Bucket: 'empty' }));
    filler.fillBut(0);
    await second.remove('d');
    assert.deepEqual(await second.keys(), ['e']);
    assert.ok(contentOf('e', SMALL).equals(await second.read('e')));
    filler.remove();
    await second.put('f', contentOf('f', 5 * MIB));
    assert.deepEqual(await second.keys(), ['e', 'f']);
  },
);
