import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as s3 from '@aws-sdk/client-s3';
import { ANA, BEN, codeOf, MANAGER, startStore } from './start-store.ts';

const Bucket = 'photos';

test('buckets: a user creates a private bucket, lists it, and deletes it when it is empty', async () => {
  await using store = await startStore();
  const [ana, ben] = [store.client(ANA), store.client(BEN)];
  await ana.send(new s3.CreateBucketCommand({ Bucket }));
  assert.equal(await codeOf(ana.send(new s3.CreateBucketCommand({ Bucket }))), 'BucketAlreadyOwnedByYou');
  assert.equal(await codeOf(ben.send(new s3.CreateBucketCommand({ Bucket }))), 'BucketAlreadyExists');
  const names = async (client: s3.S3Client) =>
    ((await client.send(new s3.ListBucketsCommand())).Buckets ?? []).map(({ Name }) => Name);
  assert.deepEqual(await names(ana), [Bucket]);
  assert.deepEqual(await names(ben), []);
  assert.deepEqual(await names(store.client(MANAGER)), [Bucket]);
  assert.equal(store.store.describeBucket(Bucket)?.visibility, 'private');
  await ana.send(new s3.HeadBucketCommand({ Bucket }));
  await ana.send(new s3.PutObjectCommand({ Bucket, Key: 'a', Body: 'x' }));
  assert.equal(await codeOf(ana.send(new s3.DeleteBucketCommand({ Bucket }))), 'BucketNotEmpty');
  await ana.send(new s3.DeleteObjectCommand({ Bucket, Key: 'a' }));
  assert.equal(await codeOf(ben.send(new s3.DeleteBucketCommand({ Bucket }))), 'AccessDenied');
  await ana.send(new s3.DeleteBucketCommand({ Bucket }));
  assert.equal(await codeOf(ana.send(new s3.ListObjectsV2Command({ Bucket }))), 'NoSuchBucket');
});

for (const name of ['ab', 'A-B', 'a..b', '-ab', 'a_b', '192.168.0.1', `a${'b'.repeat(63)}`]) {
  test(`buckets: the name "${name}" is rejected`, async () => {
    await using store = await startStore();
    const client = store.client();
    assert.equal(await codeOf(client.send(new s3.CreateBucketCommand({ Bucket: name }))), 'InvalidBucketName');
  });
}

for (const name of ['oscar-staging', 'oscar-staging-2', 'oscar-events']) {
  test(`buckets: no user can create or access the bucket ${name}`, async () => {
    await using store = await startStore();
    const client = store.client();
    assert.equal(await codeOf(client.send(new s3.CreateBucketCommand({ Bucket: name }))), 'AccessDenied');
    assert.equal(await codeOf(client.send(new s3.ListObjectsV2Command({ Bucket: name }))), 'AccessDenied');
    await store.store.createBucket({ name, owner: ANA.accessKey, visibility: 'public' });
    assert.equal(await codeOf(client.send(new s3.ListObjectsV2Command({ Bucket: name }))), 'AccessDenied');
    assert.deepEqual((await client.send(new s3.ListBucketsCommand())).Buckets ?? [], []);
  });
}

test('buckets: the configuration requests are answered', async () => {
  await using store = await startStore();
  const client = store.client();
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  assert.equal((await client.send(new s3.GetBucketLocationCommand({ Bucket }))).LocationConstraint, undefined);
  assert.equal((await client.send(new s3.GetBucketVersioningCommand({ Bucket }))).Status, undefined);
  assert.equal((await client.send(new s3.GetBucketAclCommand({ Bucket }))).Owner?.ID, ANA.accessKey);
  assert.equal(await codeOf(client.send(new s3.GetBucketPolicyCommand({ Bucket }))), 'NoSuchBucketPolicy');
  assert.equal(await codeOf(client.send(new s3.PutBucketPolicyCommand({ Bucket, Policy: '{}' }))), 'AccessDenied');
  const versioning = new s3.PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: 'Enabled' } });
  assert.equal(await codeOf(client.send(versioning)), 'NotImplemented');
  const lock = new s3.GetObjectLockConfigurationCommand({ Bucket });
  assert.equal(await codeOf(client.send(lock)), 'ObjectLockConfigurationNotFoundError');
  assert.equal(await codeOf(client.send(new s3.GetBucketLocationCommand({ Bucket: 'nowhere' }))), 'NoSuchBucket');
});

test('buckets: the owner changes the tags', async () => {
  await using store = await startStore();
  const client = store.client();
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  const tags = () => client.send(new s3.GetBucketTaggingCommand({ Bucket }));
  assert.equal(await codeOf(tags()), 'NoSuchTagSet');
  const TagSet = [{ Key: 'project', Value: 'birds' }];
  await client.send(new s3.PutBucketTaggingCommand({ Bucket, Tagging: { TagSet } }));
  assert.deepEqual((await tags()).TagSet, TagSet);
  await client.send(new s3.DeleteBucketTaggingCommand({ Bucket }));
  assert.equal(await codeOf(tags()), 'NoSuchTagSet');
});

test('notification rules: the owner reads them, only the manager changes them', async () => {
  await using store = await startStore();
  const client = store.client();
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  const rules = {
    QueueConfigurations: [
      {
        Id: 'one',
        QueueArn: 'arn:minio:sqs:us-east-1:OSCAR:webhook',
        Events: ['s3:ObjectCreated:*' as const],
        Filter: { Key: { FilterRules: [{ Name: 'prefix' as const, Value: 'in/' }] } },
      },
    ],
  };
  const put = new s3.PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration: rules });
  assert.equal(await codeOf(client.send(put)), 'AccessDenied');
  await store.client(MANAGER).send(put);
  assert.deepEqual(store.store.listRules(Bucket), [{ id: 'one', prefix: 'in/', suffix: '' }]);
  const shown = await client.send(new s3.GetBucketNotificationConfigurationCommand({ Bucket }));
  assert.equal(shown.QueueConfigurations?.[0]?.Id, 'one');
  const [rule] = shown.QueueConfigurations?.[0]?.Filter?.Key?.FilterRules ?? [];
  assert.equal(rule?.Value, 'in/');
});

test('buckets: a bucket deleted with its content is gone at once, and its name is free', async () => {
  await using store = await startStore();
  const client = store.client();
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  const puts = Array.from({ length: 30 }, (_, n) =>
    client.send(new s3.PutObjectCommand({ Bucket, Key: `k${n}`, Body: 'x'.repeat(n * 1000) })),
  );
  await Promise.all(puts);
  await client.send(new s3.CreateMultipartUploadCommand({ Bucket, Key: 'unfinished' }));
  await store.store.deleteBucket(Bucket, { withContent: true });
  assert.equal(store.store.describeBucket(Bucket), undefined);
  assert.deepEqual(await store.store.createBucket({ name: Bucket, owner: BEN.accessKey }), { created: true });
  assert.deepEqual(store.store.listObjects(Bucket, { limit: 10 }).objects, []);
  assert.deepEqual(store.store.describeBucket(Bucket)?.usage, { objects: 0, bytes: 0 });
});

test('quota: a full bucket rejects every kind of write', async () => {
  await using store = await startStore({ limits: { partBytes: 1 } });
  const client = store.client();
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  await store.store.updateBucket(Bucket, { quota: 100_000 });
  const put = (Key: string, size: number) =>
    client.send(new s3.PutObjectCommand({ Bucket, Key, Body: 'x'.repeat(size) }));
  await put('a', 60_000);
  assert.equal(await codeOf(put('b', 60_000)), 'XMinioAdminBucketQuotaExceeded');
  await put('a', 90_000);
  const copy = new s3.CopyObjectCommand({ Bucket, Key: 'c', CopySource: `${Bucket}/a` });
  assert.equal(await codeOf(client.send(copy)), 'XMinioAdminBucketQuotaExceeded');
  const { UploadId } = await client.send(new s3.CreateMultipartUploadCommand({ Bucket, Key: 'm' }));
  const part = (PartNumber: number) =>
    client.send(new s3.UploadPartCommand({ Bucket, Key: 'm', UploadId, PartNumber, Body: 'x'.repeat(6_000) }));
  await part(1);
  assert.equal(await codeOf(part(2)), 'XMinioAdminBucketQuotaExceeded');
  assert.deepEqual(store.store.describeBucket(Bucket)?.usage, { objects: 1, bytes: 90_000 });
  await store.store.updateBucket(Bucket, { quota: null });
  await part(2);
});
