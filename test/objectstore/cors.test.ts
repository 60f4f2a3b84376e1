import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as s3 from '@aws-sdk/client-s3';
import { ANA, codeOf, startStore } from './start-store.ts';

const Bucket = 'photos';
const origin = 'https://dashboard.example';
const asking = {
  origin,
  'access-control-request-method': 'PUT',
  'access-control-request-headers': 'content-type,x-amz-meta-a',
};

async function startWithBucket() {
  const store = await startStore();
  await store.store.createBucket({ name: Bucket, owner: ANA.accessKey });
  return { ...store, [Symbol.asyncDispose]: () => store[Symbol.asyncDispose]() };
}

test('CORS: without a configuration every origin is allowed, as on MinIO', async () => {
  await using store = await startWithBucket();
  const answer = await fetch(`${store.endpoint}/${Bucket}/a`, { method: 'OPTIONS', headers: asking });
  assert.equal(answer.status, 204);
  assert.equal(answer.headers.get('access-control-allow-origin'), origin);
  assert.equal(answer.headers.get('access-control-allow-methods'), 'PUT');
  assert.equal(answer.headers.get('access-control-allow-headers'), 'content-type,x-amz-meta-a');
  assert.equal(answer.headers.get('access-control-allow-credentials'), 'true');
  assert.match(answer.headers.get('vary') ?? '', /Origin/);
});

test('CORS: a page may read responses and errors', async () => {
  await using store = await startWithBucket();
  await store.store.putObject({ bucket: Bucket, key: 'a' }, Buffer.from('x'));
  const url = store.store.presign('GET', { bucket: Bucket, key: 'a' }, { expires: 60, endpoint: store.endpoint });
  for (const [address, status] of [
    [url, 200],
    [`${store.endpoint}/${Bucket}/a`, 403],
  ] as const) {
    const answer = await fetch(address, { headers: { origin } });
    await answer.text();
    assert.equal(answer.status, status);
    assert.equal(answer.headers.get('access-control-allow-origin'), origin);
    assert.match(answer.headers.get('access-control-expose-headers') ?? '', /ETag/);
  }
});

test('CORS: the owner can restrict the allowed origins', async () => {
  await using store = await startWithBucket();
  const client = store.client();
  assert.equal(await codeOf(client.send(new s3.GetBucketCorsCommand({ Bucket }))), 'NoSuchCORSConfiguration');
  const rule = {
    AllowedOrigins: ['https://*.example'],
    AllowedMethods: ['PUT'],
    AllowedHeaders: ['*'],
    MaxAgeSeconds: 60,
  };
  await client.send(new s3.PutBucketCorsCommand({ Bucket, CORSConfiguration: { CORSRules: [rule] } }));
  assert.deepEqual((await client.send(new s3.GetBucketCorsCommand({ Bucket }))).CORSRules, [rule]);
  const ask = (headers: Record<string, string>) =>
    fetch(`${store.endpoint}/${Bucket}/a`, { method: 'OPTIONS', headers: { ...asking, ...headers } });
  const welcome = await ask({});
  assert.deepEqual([welcome.status, welcome.headers.get('access-control-max-age')], [204, '60']);
  assert.equal((await ask({ origin: 'https://elsewhere.test' })).status, 403);
  assert.equal((await ask({ 'access-control-request-method': 'DELETE' })).status, 403);
  await client.send(new s3.DeleteBucketCorsCommand({ Bucket }));
  assert.equal((await ask({ origin: 'https://elsewhere.test' })).status, 204);
});
