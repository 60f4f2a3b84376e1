import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ListBucketsCommand, S3Client } from '@aws-sdk/client-s3';
import { ADMIN, startTestManager } from './support/manager.ts';

test('staging bucket: the manager uses the bucket in OSCAR_STAGING_BUCKET', async () => {
  const credentials = { accessKeyId: 'root', secretAccessKey: 'secret-of-root' };
  await using manager = await startTestManager({
    OSCAR_STAGING_BUCKET: 'oscar-staging-b',
    MINIO_ACCESS_KEY: credentials.accessKeyId,
    MINIO_SECRET_KEY: credentials.secretAccessKey,
  });
  const { json } = await manager.call('GET', '/system/config', { as: ADMIN });
  const { minio_provider } = json() as { minio_provider: { endpoint: string; region: string } };
  const { endpoint, region } = minio_provider;
  const client = new S3Client({ endpoint, region, forcePathStyle: true, credentials });
  const { Buckets = [] } = await client.send(new ListBucketsCommand({}));
  assert.deepEqual(
    Buckets.map(({ Name }) => Name),
    ['oscar-staging-b'],
  );
  await manager.call('POST', '/system/buckets', { as: ADMIN, body: { bucket_name: 'photos' } });
  const listed = (await manager.call('GET', '/system/buckets', { as: ADMIN })).json() as { bucket_name: string }[];
  assert.deepEqual(
    listed.map(({ bucket_name }) => bucket_name),
    ['photos'],
    'the list of the administrator leaves it out',
  );
});
