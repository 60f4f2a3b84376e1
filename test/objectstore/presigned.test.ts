import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import * as s3 from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { Client as MinioClient } from 'minio';
import { ANA, BEN, MANAGER, startStore } from './start-store.ts';

const Bucket = 'photos';

async function startWithBucket(now?: () => number) {
  const store = await startStore(now ? { now } : {});
  await store.store.createBucket({ name: Bucket, owner: ANA.accessKey });
  return { ...store, [Symbol.asyncDispose]: () => store[Symbol.asyncDispose]() };
}

const errorOf = async (answer: Response) => /<Code>(.*)<\/Code>/.exec(await answer.text())?.[1];

test('presigned URL: those of aws-sdk with its defaults upload and download', async () => {
  await using store = await startWithBucket();
  const client = store.client();
  const Key = 'in/ünï code+1 &=.txt';
  const put = await getSignedUrl(client, new s3.PutObjectCommand({ Bucket, Key, Metadata: { from: 'page' } }));
  assert.match(put, /x-amz-checksum-crc32/, 'the checksum of nothing that must not be believed');
  assert.equal((await fetch(put, { method: 'PUT', body: 'hello' })).status, 200);
  const get = await getSignedUrl(client, new s3.GetObjectCommand({ Bucket, Key, ResponseContentType: 'text/csv' }));
  const answer = await fetch(get);
  assert.equal(await answer.text(), 'hello');
  assert.equal(answer.headers.get('content-type'), 'text/csv');
  assert.equal(answer.headers.get('x-amz-meta-from'), 'page');
});

test('presigned URL: those of the minio client upload and download', async () => {
  await using store = await startWithBucket();
  const minio = new MinioClient({
    endPoint: '127.0.0.1',
    port: store.port,
    useSSL: false,
    pathStyle: true,
    accessKey: ANA.accessKey,
    secretKey: ANA.secret.reveal(),
  });
  const put = await minio.presignedPutObject(Bucket, 'a b', 60);
  assert.equal((await fetch(put, { method: 'PUT', body: 'hello' })).status, 200);
  assert.equal(await (await fetch(await minio.presignedGetObject(Bucket, 'a b', 60))).text(), 'hello');
});

test('presigned URL: those of the store upload with their headers, and download', async () => {
  await using store = await startWithBucket();
  const { endpoint } = store;
  const at = { bucket: Bucket, key: 'in/a b.txt' };
  const put = store.store.presign('PUT', at, {
    expires: 60,
    as: ANA.accessKey,
    endpoint,
    contentType: 'text/plain',
    headers: { 'x-amz-meta-from': 'oscar' },
  });
  const headers = { 'content-type': 'text/plain', 'x-amz-meta-from': 'oscar' };
  assert.equal(await errorOf(await fetch(put, { method: 'PUT', body: 'hello' })), 'SignatureDoesNotMatch');
  assert.equal((await fetch(put, { method: 'PUT', body: 'hello', headers })).status, 200);
  const get = store.store.presign('GET', at, { expires: 60, endpoint, responseContentType: 'text/csv' });
  const answer = await fetch(get);
  assert.deepEqual([await answer.text(), answer.headers.get('content-type')], ['hello', 'text/csv']);
  assert.equal(store.store.statObject(at)?.headers['x-amz-meta-from'], 'oscar');
  const bens = store.store.presign('GET', at, { expires: 60, as: BEN.accessKey, endpoint });
  assert.equal(await errorOf(await fetch(bens)), 'AccessDenied');
  assert.throws(() => store.store.presign('GET', at, { expires: 604_801, endpoint }), { code: 'InvalidArgument' });
  assert.throws(() => store.store.presign('GET', at, { expires: 1, as: 'nobody', endpoint }), {
    code: 'InvalidAccessKeyId',
  });
});

test('presigned URL: it is rejected after its expiry, and with another method, key or header', async () => {
  // The client signs with the clock of the machine, so the store's clock starts there and is then moved ahead.
  let ahead = 0;
  await using store = await startWithBucket(() => Date.now() + ahead);
  const client = store.client();
  await client.send(new s3.PutObjectCommand({ Bucket, Key: 'a', Body: 'x' }));
  // Longer than this test takes, so the first requests are not too late.
  const expiresIn = 3_600;
  const url = await getSignedUrl(client, new s3.GetObjectCommand({ Bucket, Key: 'a' }), { expiresIn });
  assert.equal((await fetch(url)).status, 200);
  assert.equal(await errorOf(await fetch(url, { method: 'DELETE' })), 'SignatureDoesNotMatch');
  assert.equal(await errorOf(await fetch(url.replace('/a?', '/b?'))), 'SignatureDoesNotMatch');
  const put = await getSignedUrl(client, new s3.PutObjectCommand({ Bucket, Key: 'b' }));
  const copy = await fetch(put, { method: 'PUT', headers: { 'x-amz-copy-source': `${Bucket}/a` } });
  assert.equal(await errorOf(copy), 'AccessDenied');
  ahead = (expiresIn + 1) * 1_000;
  const late = await fetch(url);
  assert.equal(late.status, 403);
  assert.match(await late.text(), /Request has expired/);
});

/** A URL as boto3 and `aws s3 presign` create it by default. */
function presignV2(
  endpoint: string,
  method: string,
  path: string,
  expires: number,
  secret = ANA.secret.reveal(),
): string {
  const text = `${method}\n\n\n${expires}\n${path}`;
  const signature = createHmac('sha1', secret).update(text).digest('base64');
  const query = new URLSearchParams({ AWSAccessKeyId: ANA.accessKey, Signature: signature, Expires: String(expires) });
  return `${endpoint}${path}?${query.toString()}`;
}

test('presigned URL: version 2 is accepted until it expires', async () => {
  await using store = await startWithBucket();
  const soon = Math.floor(Date.now() / 1000) + 60;
  const path = `/${Bucket}/in/a%20b`;
  const upload = await fetch(presignV2(store.endpoint, 'PUT', path, soon), {
    method: 'PUT',
    body: Buffer.from('hello'),
  });
  assert.equal(upload.status, 200);
  assert.equal(await (await fetch(presignV2(store.endpoint, 'GET', path, soon))).text(), 'hello');
  const wrong = await fetch(presignV2(store.endpoint, 'GET', path, soon, 'wrong'));
  assert.match(await wrong.text(), /SignatureDoesNotMatch[^]*signature_version=s3v4/);
  const past = await fetch(presignV2(store.endpoint, 'GET', path, soon - 120));
  assert.match(await past.text(), /AccessDenied[^]*expired/);
});

test('presigned URL: metadata in the query that is not a valid header is rejected', async () => {
  await using store = await startWithBucket();
  const command = new s3.PutObjectCommand({ Bucket, Key: 'a', Metadata: { from: 'a\nb' } });
  const url = await getSignedUrl(store.client(), command);
  assert.equal(await errorOf(await fetch(url, { method: 'PUT', body: 'x' })), 'InvalidArgument');
  const at = { bucket: Bucket, key: 'a' };
  await assert.rejects(store.store.putObject(at, Buffer.from('x'), { metadata: { from: '€' } }), {
    code: 'InvalidArgument',
  });
});

test('presigned URL: the manager signs with its own keys, which the URL does not reveal', async () => {
  await using store = await startWithBucket();
  const url = store.store.presign('GET', { bucket: Bucket, key: 'a' }, { expires: 60, endpoint: store.endpoint });
  assert.ok(!url.includes(MANAGER.secret.reveal()));
  assert.equal(await errorOf(await fetch(url)), 'NoSuchKey');
});
