import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as s3 from '@aws-sdk/client-s3';
import { ANA, codeOf, type Keys, startStore } from './start-store.ts';

const Bucket = 'photos';

async function startWithRule(suffix?: string) {
  const store = await startStore();
  await store.store.createBucket({ name: Bucket, owner: ANA.accessKey });
  await store.store.putRule(Bucket, { id: 'one', prefix: 'in/', ...(suffix !== undefined && { suffix }) });
  const client = store.client();
  const put = (Key: string, Body = 'hello') => client.send(new s3.PutObjectCommand({ Bucket, Key, Body }));
  const keys = () => store.store.takeEvents(100).map(({ key }) => key);
  return {
    ...store,
    clientOf: (who: Keys) => store.client(who),
    client,
    put,
    keys,
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
  };
}

test('events: an object with the prefix of a rule causes one event, others cause none', async () => {
  await using store = await startWithRule();
  await store.store.putRule(Bucket, { id: 'overlapping', prefix: 'in/a' });
  let woken = 0;
  const stop = store.store.onEvents(() => woken++);
  await store.put('out/a');
  assert.equal(woken, 0);
  await store.put('in/a b.txt');
  assert.equal(woken, 1);
  stop();
  const [event, ...others] = store.store.takeEvents(100);
  assert.deepEqual(others, []);
  const object = store.store.statObject({ bucket: Bucket, key: 'in/a b.txt' });
  assert.ok(event && object);
  const { bucket, key, eTag, size, modifiedAt } = event;
  assert.deepEqual([bucket, key, eTag, size, modifiedAt], [Bucket, 'in/a b.txt', object.eTag, 5, object.modified]);
  const [record] = JSON.parse(event.event).Records;
  assert.equal(record.requestParameters.principalId, ANA.accessKey);
  assert.equal(record.requestParameters.sourceIPAddress, '127.0.0.1');
  assert.equal(record.s3.object.key, 'in%2Fa+b.txt');
  assert.equal(record.s3.object.sequencer, object.sequencer);
  assert.equal(BigInt(`0x${object.sequencer}`) / 1_000_000n, BigInt(object.modified));
  assert.equal(record.responseElements['x-minio-origin-endpoint'], store.endpoint);
});

test('events: the suffix of a rule must match too', async () => {
  await using store = await startWithRule('.jpg');
  await store.put('in/a.jpg');
  await store.put('in/a.png');
  assert.deepEqual(store.keys(), ['in/a.jpg']);
});

test('events: a rewrite, a copy, a multipart upload and a folder cause events; a failed write does not', async () => {
  await using store = await startWithRule();
  await store.put('in/a');
  await store.put('in/a');
  await store.client.send(new s3.CopyObjectCommand({ Bucket, Key: 'in/b', CopySource: `${Bucket}/in/a` }));
  const { UploadId } = await store.client.send(new s3.CreateMultipartUploadCommand({ Bucket, Key: 'in/c' }));
  const { ETag } = await store.client.send(
    new s3.UploadPartCommand({ Bucket, Key: 'in/c', UploadId, PartNumber: 1, Body: 'x' }),
  );
  const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] };
  await store.client.send(new s3.CompleteMultipartUploadCommand({ Bucket, Key: 'in/c', UploadId, MultipartUpload }));
  await store.store.putObject({ bucket: Bucket, key: 'in/' }, new Uint8Array(0), { as: ANA.accessKey });
  const refused = new s3.PutObjectCommand({ Bucket, Key: 'in/a', Body: 'x', IfNoneMatch: '*' });
  assert.equal(await codeOf(store.client.send(refused)), 'PreconditionFailed');
  const events = store.store.takeEvents(100);
  assert.deepEqual(
    events.map(({ key, event }) => [key, JSON.parse(event).EventName]),
    [
      ['in/a', 's3:ObjectCreated:Put'],
      ['in/a', 's3:ObjectCreated:Put'],
      ['in/b', 's3:ObjectCreated:Copy'],
      ['in/c', 's3:ObjectCreated:CompleteMultipartUpload'],
      ['in/', 's3:ObjectCreated:Put'],
    ],
  );
  const [first, second] = events;
  assert.notEqual(first?.modifiedAt, second?.modifiedAt, 'the same bytes again are another event');
});

test('events: a write with keys of a job or a session names its user', async () => {
  await using store = await startWithRule();
  const policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Action: 's3:PutObject', Resource: `arn:aws:s3:::${Bucket}/*` }],
  });
  const keys = await store.store.issueKeys({ parent: ANA.accessKey, policy, ttl: 60_000 });
  const job = store.clientOf({ accessKey: keys.accessKey, secret: keys.secretKey, token: keys.sessionToken });
  await job.send(new s3.PutObjectCommand({ Bucket, Key: 'in/a', Body: 'x' }));
  const [event] = store.store.takeEvents(1);
  assert.equal(JSON.parse(event?.event ?? '').Records[0].userIdentity.principalId, ANA.accessKey);
});

test('outbox: events stay in order until they are acknowledged, also after a restart', async () => {
  await using store = await startWithRule();
  for (const n of [1, 2, 3, 4]) await store.put(`in/${n}`);
  assert.deepEqual(store.keys(), ['in/1', 'in/2', 'in/3', 'in/4']);
  assert.deepEqual(store.keys(), ['in/1', 'in/2', 'in/3', 'in/4']);
  const [first, second, third] = store.store.takeEvents(3);
  assert.deepEqual(
    store.store.takeEvents(1, second?.seq).map(({ seq }) => seq),
    [third?.seq],
  );
  await store.store.ackEvents([second?.seq ?? 0]);
  await store.store.ackEvents(first?.seq ?? 0);
  await store.store.close();
  await using again = await startStore({ directory: store.directory });
  assert.deepEqual(
    again.store.takeEvents(100).map(({ key }) => key),
    ['in/3', 'in/4'],
  );
  await again.store.ackEvents(again.store.takeEvents(100).at(-1)?.seq ?? 0);
  await again.store.putObject({ bucket: Bucket, key: 'in/5' }, Buffer.from('x'));
  const [fifth] = again.store.takeEvents(100);
  assert.ok((fifth?.seq ?? 0) > (third?.seq ?? 0) + 1, 'numbers are never used again');
});

test('events: a removed rule causes no more events', async () => {
  await using store = await startWithRule();
  await store.store.removeRule(Bucket, 'one');
  await store.put('in/a');
  assert.deepEqual(store.keys(), []);
});

test('events: a write that an attempt repeats causes no second event and keeps the modification time', async () => {
  await using store = await startWithRule();
  const write = (Body: string, attempt: string) =>
    store.client.send(new s3.PutObjectCommand({ Bucket, Key: 'in/a', Body, Metadata: { 'oscar-attempt': attempt } }));
  const time = () => store.store.statObject({ bucket: Bucket, key: 'in/a' })?.sequencer;
  await write('made', 'one');
  const times = [time()];
  await write('made', 'one');
  assert.deepEqual([store.keys(), time()], [['in/a'], times[0]]);
  assert.equal(store.store.describeBucket(Bucket)?.usage.objects, 1);

  for (const other of [() => write('other', 'one'), () => write('other', 'two'), () => store.put('in/a', 'other')]) {
    await other();
    times.push(time());
  }
  assert.equal(store.keys().length, 4);
  assert.equal(new Set(times).size, 4);
  const { Body } = await store.client.send(new s3.GetObjectCommand({ Bucket, Key: 'in/a' }));
  assert.equal(await Body?.transformToString(), 'other');
});
