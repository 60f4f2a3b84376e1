import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { MinioAdmin } from '../../src/adapters/object-stores/minio/admin-api.ts';
import type { MinioStore } from '../../src/adapters/object-stores/minio/index.ts';
import { ManagerAccount } from '../../src/adapters/object-stores/minio/manager-account.ts';
import { copyWithin } from '../../src/adapters/object-stores/s3/place-object.ts';
import { S3Api } from '../../src/adapters/object-stores/s3/s3-api.ts';
import { SignedHttpClient } from '../../src/adapters/object-stores/s3/signed-http-client.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { bucket, keysOf, storeClient } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { Hook } from './hook.ts';
import { Minio, ROOT } from './minio.ts';
import { openStore } from './under-test.ts';

const hook = new Hook();
let minio: Minio;
let store: MinioStore;
before(async () => {
  const url = await hook.listen();
  minio = await Minio.start({
    hooks: {
      OSCAR_FAST: { url: `${url}/fast`, durable: false },
      OSCAR_DURABLE: { url: `${url}/durable`, durable: true },
    },
  });
  store = openStore(minio, { findUserKeys: async (uid) => (uid === 'alice' ? keysOf(uid) : undefined) });
  await store.putUser('alice', keysOf('alice'));
  await store.createBucket(bucket('events-b'));
  await store.subscribe({ bucket: 'events-b', prefix: 'in/', subscriber: 'u1' });
});
after(async () => {
  store.close();
  await minio.stop();
  hook.close();
});

const seen = (path: string, key: string) =>
  eventually(() => {
    const found = hook.events(path).filter((event) => event.key === key);
    assert.ok(found.length > 0, `no event of ${key} at ${path}`);
    return found;
  }, 20_000);

test('sweep: an event and the listing of an object give the same job id', {
  timeout: 60_000,
}, async () => {
  const { client, put } = storeClient(minio, keysOf('alice'));
  await put('events-b', 'in/plain ü+&=', 'text');
  await client.send(
    new CopyObjectCommand({ Bucket: 'events-b', Key: 'in/copied', CopySource: 'events-b/in/plain%20%C3%BC%2B%26%3D' }),
  );
  const at = { Bucket: 'events-b', Key: 'in/parts' };
  const { UploadId } = await client.send(new CreateMultipartUploadCommand(at));
  const { ETag } = await client.send(
    new UploadPartCommand({ ...at, UploadId, PartNumber: 1, Body: randomBytes(1000) }),
  );
  await client.send(
    new CompleteMultipartUploadCommand({ ...at, UploadId, MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] } }),
  );
  await put('events-b', 'elsewhere/x');

  const { items } = await store.objects('events-b', { prefix: 'in/', limit: 10 });
  assert.deepEqual(
    items.map(({ key }) => key),
    ['in/copied', 'in/parts', 'in/plain ü+&='],
  );
  for (const { key, eTag, bytes, modifiedAt } of items) {
    for (const path of ['/fast', '/durable']) {
      const [event, ...more] = await seen(path, key);
      assert.deepEqual(more, []);
      assert.deepEqual(
        [event?.eTag, event?.bytes, event?.modifiedAt, event?.principal],
        [eTag, bytes, modifiedAt, 'alice'],
        `${key} at ${path}`,
      );
    }
  }
  assert.equal(hook.events('/durable').filter(({ key }) => key.startsWith('elsewhere')).length, 0);
});

test("events: an upload by a presigned URL belongs to the user that the URL was created for, if the user's keys are known", {
  timeout: 60_000,
}, async () => {
  const at = { method: 'PUT', bucket: 'events-b', expiresIn: 60 } as const;
  for (const [key, as, principal] of [
    ['in/hers', 'alice', 'alice'],
    ['in/nobodys', 'mallory', 'oscar-manager'],
  ] as const) {
    const { status } = await fetch(await store.presign({ ...at, key, as }), { method: 'PUT', body: 'x' });
    assert.equal(status, 200);
    assert.equal((await seen('/fast', key))[0]?.principal, principal);
  }
});

test('clock: the time of the store is read', async () => {
  assert.ok(Math.abs((await store.time()) - Date.now()) < 5_000);
});

test('copy: a large object is copied in parts, and only if its ETag matches', {
  timeout: 60_000,
}, async () => {
  const requests = new SignedHttpClient({ endpoint: minio.endpoint, region: minio.region, verify: true });
  const account = new ManagerAccount(new MinioAdmin({ requests, keys: ROOT }), ROOT);
  const s3 = new S3Api({ requests, account, staging: store.stagingBucket });
  const { put, get } = storeClient(minio, ROOT);
  const bytes = randomBytes(11 * 1024 * 1024);
  const { ETag = '' } = await put('events-b', 'large ä', bytes, { ContentType: 'text/x-test' });
  const from = { bucket: 'events-b', key: 'large ä', eTag: ETag.replaceAll('"', '') };
  const to = { bucket: 'events-b', key: 'in/large' };
  const largest = 5 * 1024 * 1024;
  const source = { bytes: bytes.length, contentType: 'text/x-test' };
  await copyWithin(from, to, source, { 'oscar-attempt': 'job/1' }, s3, largest);
  const found = await get(to.bucket, to.key);
  assert.ok(bytes.equals((await found.Body?.transformToByteArray()) ?? Buffer.of()));
  assert.deepEqual([found.ContentType, found.Metadata], ['text/x-test', { 'oscar-attempt': 'job/1' }]);
  assert.match(found.ETag ?? '', /-3"$/);
  const other = { ...from, eTag: 'x' };
  await assert.rejects(copyWithin(other, { ...to, key: 'in/other' }, source, {}, s3, largest), {
    errorCode: 'PreconditionFailed',
  });
  assert.deepEqual(await s3.uploads('events-b'), []);
  requests.close();
});
