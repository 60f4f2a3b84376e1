import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as s3 from '@aws-sdk/client-s3';
import { AssumeRoleCommand, type AssumeRoleCommandInput, STSClient } from '@aws-sdk/client-sts';
import { Secret } from '../../src/lib/secret.ts';
import { headOf, openRaw } from './raw-exchange.ts';
import { sign } from './signed-request.ts';
import {
  ANA,
  BEN,
  codeOf,
  configFor,
  type Keys,
  MANAGER,
  randomContent,
  startStore,
  type TestStore,
} from './start-store.ts';

const Bucket = 'photos';

const put = (client: s3.S3Client, Key: string, bucket = Bucket) =>
  codeOf(client.send(new s3.PutObjectCommand({ Bucket: bucket, Key, Body: 'x' })));
const get = (client: s3.S3Client, Key: string, bucket = Bucket) =>
  codeOf(client.send(new s3.GetObjectCommand({ Bucket: bucket, Key })));
const list = (client: s3.S3Client, Prefix?: string, bucket = Bucket) =>
  codeOf(client.send(new s3.ListObjectsV2Command({ Bucket: bucket, Prefix })));

const policy = (...statements: { Action: string[]; Resource: string[]; Condition?: object }[]) =>
  JSON.stringify({ Version: '2012-10-17', Statement: statements.map((each) => ({ Effect: 'Allow', ...each })) });

const JOB_POLICY = policy(
  { Action: ['s3:GetObject'], Resource: ['arn:aws:s3:::photos/in/a.jpg'] },
  { Action: ['s3:PutObject', 's3:AbortMultipartUpload'], Resource: ['arn:aws:s3:::oscar-staging/job-1/*'] },
);

async function jobKeys({ store }: TestStore, ttl = 3_600_000): Promise<Keys & { id: string }> {
  const keys = await store.issueKeys({ parent: ANA.accessKey, policy: JOB_POLICY, ttl });
  return { id: keys.id, accessKey: keys.accessKey, secret: keys.secretKey, token: keys.sessionToken };
}

test('access: a change of the visibility takes effect at once', async () => {
  await using store = await startStore();
  await store.store.createBucket({ name: Bucket, owner: ANA.accessKey });
  const [ana, ben] = [store.client(ANA), store.client(BEN)];
  const bens = async () => [await put(ben, 'b'), await get(ben, 'b'), await list(ben)];
  assert.equal(await put(ana, 'a'), 'no error');
  assert.deepEqual(await bens(), ['AccessDenied', 'AccessDenied', 'AccessDenied']);
  await store.store.updateBucket(Bucket, { visibility: 'restricted', allowedUsers: [BEN.accessKey] });
  assert.deepEqual(await bens(), ['no error', 'no error', 'no error']);
  assert.equal(await codeOf(ben.send(new s3.DeleteBucketCommand({ Bucket }))), 'AccessDenied');
  await store.store.updateBucket(Bucket, { allowedUsers: [] });
  assert.deepEqual(await bens(), ['AccessDenied', 'AccessDenied', 'AccessDenied']);
  await store.store.updateBucket(Bucket, { visibility: 'public' });
  assert.deepEqual(await bens(), ['no error', 'no error', 'no error']);
  const tags = new s3.PutBucketTaggingCommand({ Bucket, Tagging: { TagSet: [{ Key: 'a', Value: 'b' }] } });
  assert.equal(await codeOf(ben.send(tags)), 'AccessDenied');
});

test('access: a request without a signature is rejected', async () => {
  await using store = await startStore();
  await store.store.createBucket({ name: Bucket, owner: ANA.accessKey, visibility: 'public' });
  for (const path of ['/', `/${Bucket}`, `/${Bucket}/a`]) {
    const answer = await fetch(`${store.endpoint}${path}`);
    assert.equal(answer.status, 403);
    assert.match(await answer.text(), /<Code>AccessDenied<\/Code>/);
  }
});

test('access: wrong keys, wrong secrets and a wrong clock have different errors', async () => {
  await using store = await startStore();
  const ask = (keys: Keys, config: s3.S3ClientConfig = {}) =>
    codeOf(store.client(keys, config).send(new s3.ListBucketsCommand()));
  assert.equal(await ask({ accessKey: 'nobody', secret: new Secret('x') }), 'InvalidAccessKeyId');
  assert.equal(await ask({ ...ANA, secret: BEN.secret }), 'SignatureDoesNotMatch');
  assert.equal(await ask({ ...ANA, token: new Secret('token') }), 'InvalidTokenId');
  const { host } = new URL(store.endpoint);
  const { headers } = sign({ method: 'GET', path: '/', host, keys: ANA, time: Date.now() - 16 * 60_000 });
  const { host: _, ...rest } = headers;
  const answer = await fetch(store.endpoint, { headers: rest });
  assert.match(await answer.text(), /<Code>RequestTimeTooSkewed<\/Code>/);
});

test('users: a new secret works at once, the old one and its sessions end', async () => {
  await using store = await startStore();
  const ask = (keys: Keys) => codeOf(store.client(keys).send(new s3.ListBucketsCommand()));
  const session = await assume(store, ANA);
  assert.equal(await ask(session), 'no error');
  const young = { ...ANA, secret: new Secret('another-secret') };
  await store.store.putUser(young.accessKey, young.secret);
  assert.equal(await ask(ANA), 'SignatureDoesNotMatch');
  assert.equal(await ask(young), 'no error');
  assert.equal(await ask(session), 'InvalidAccessKeyId');
  await store.store.removeUser(ANA.accessKey);
  assert.equal(await ask(young), 'InvalidAccessKeyId');
});

test('users: no secret is on disk in plain text', async () => {
  await using store = await startStore();
  const keys = await jobKeys(store);
  await store.store.close();
  for (const name of readdirSync(store.directory, { recursive: true, withFileTypes: true })) {
    if (!name.isFile()) continue;
    const content = readFileSync(join(name.parentPath, name.name));
    for (const secret of [ANA.secret, BEN.secret, MANAGER.secret, keys.secret, keys.token]) {
      assert.ok(!content.includes(secret?.reveal() ?? ''), name.name);
    }
  }
});

test('job keys: they allow only what their policy allows, also in the staging bucket', async () => {
  await using store = await startStore();
  await store.store.createBucket({ name: Bucket, owner: ANA.accessKey });
  await store.store.createBucket({ name: 'oscar-staging', owner: MANAGER.accessKey });
  await store.store.putObject({ bucket: Bucket, key: 'in/a.jpg' }, Buffer.from('x'));
  const job = store.client(await jobKeys(store));
  assert.equal(await get(job, 'in/a.jpg'), 'no error');
  assert.equal(await put(job, 'in/a.jpg'), 'AccessDenied');
  assert.equal(await get(job, 'in/b.jpg'), 'AccessDenied');
  assert.equal(await list(job), 'AccessDenied');
  assert.equal(await put(job, 'job-1/out', 'oscar-staging'), 'no error');
  assert.equal(await put(job, 'job-2/out', 'oscar-staging'), 'AccessDenied');
  assert.equal(await get(job, 'job-1/out', 'oscar-staging'), 'AccessDenied');
  assert.equal(await codeOf(job.send(new s3.CreateBucketCommand({ Bucket: 'mine' }))), 'AccessDenied');
  const remove = new s3.DeleteObjectsCommand({ Bucket, Delete: { Objects: [{ Key: 'in/a.jpg' }] } });
  const { Errors = [] } = await job.send(remove);
  assert.deepEqual(
    Errors.map(({ Code }) => Code),
    ['AccessDenied'],
  );
  assert.equal(await get(store.client(ANA), 'job-1/out', 'oscar-staging'), 'AccessDenied');
});

test('job keys: they end when they expire or are revoked', async () => {
  let now = Date.now();
  await using store = await startStore({ now: () => now });
  await store.store.createBucket({ name: Bucket, owner: ANA.accessKey });
  await store.store.putObject({ bucket: Bucket, key: 'in/a.jpg' }, Buffer.from('x'));
  const [revoked, expired] = [await jobKeys(store), await jobKeys(store, 60_000)];
  assert.equal(await get(store.client(revoked), 'in/a.jpg'), 'no error');
  await store.store.revokeKeys(revoked.id);
  assert.equal(await get(store.client(revoked), 'in/a.jpg'), 'InvalidAccessKeyId');
  now += 60_000;
  assert.equal(await get(store.client(expired), 'in/a.jpg'), 'ExpiredToken');
  const { token: _, ...tokenless } = await jobKeys(store);
  assert.equal(await get(store.client(tokenless), 'in/a.jpg'), 'InvalidTokenId');
});

test('job keys: an upload fails if its keys are revoked while it arrives', async () => {
  await using store = await startStore();
  await store.store.createBucket({ name: 'oscar-staging', owner: MANAGER.accessKey });
  const keys = await jobKeys(store);
  const { host } = new URL(store.endpoint);
  const path = '/oscar-staging/job-1/out';
  const { headers } = sign({ method: 'PUT', path, host, keys, payload: 'UNSIGNED-PAYLOAD' });
  using connection = await openRaw(store.port);
  connection.send(headOf('PUT', path, { ...headers, 'content-length': '1000000', expect: '100-continue' }));
  await connection.until(/100 Continue/);
  connection.send(randomContent(500_000));
  await store.store.revokeKeys(keys.id);
  connection.send(randomContent(500_000));
  assert.match(await connection.until(/<\/Error>/), /403 Forbidden[^]*InvalidAccessKeyId/);
  assert.equal(store.store.statObject({ bucket: 'oscar-staging', key: 'job-1/out' }), undefined);
});

test('job keys: revoked keys cannot complete a multipart upload', async () => {
  await using store = await startStore();
  await store.store.createBucket({ name: 'oscar-staging', owner: MANAGER.accessKey });
  const keys = await jobKeys(store);
  const client = store.client(keys);
  const at = { Bucket: 'oscar-staging', Key: 'job-1/out' };
  const { UploadId } = await client.send(new s3.CreateMultipartUploadCommand(at));
  const { ETag } = await client.send(new s3.UploadPartCommand({ ...at, UploadId, PartNumber: 1, Body: 'x' }));
  await store.store.revokeKeys(keys.id);
  const complete = { ...at, UploadId, MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] } };
  assert.equal(await codeOf(client.send(new s3.CompleteMultipartUploadCommand(complete))), 'InvalidAccessKeyId');
});

async function assume(store: TestStore, keys: Keys, Policy?: string): Promise<Keys> {
  const sts = new STSClient(configFor(store.endpoint, keys));
  const { Credentials } = await sts.send(
    new AssumeRoleCommand({ RoleArn: 'arn:aws:iam::0:role/x', RoleSessionName: 'x', DurationSeconds: 900, Policy }),
  );
  sts.destroy();
  return {
    accessKey: Credentials?.AccessKeyId ?? '',
    secret: new Secret(Credentials?.SecretAccessKey ?? ''),
    token: new Secret(Credentials?.SessionToken ?? ''),
  };
}

test('users: putting a user with the same secret is a no-op, another secret ends sessions', async () => {
  await using store = await startStore();
  await store.store.createBucket({ name: Bucket, owner: ANA.accessKey });
  const session = store.client(await assume(store, ANA));
  await store.store.putUser(ANA.accessKey, ANA.secret);
  assert.equal(await put(session, 'in/a.jpg'), 'no error');
  await store.store.putUser(ANA.accessKey, new Secret('another-secret'));
  assert.equal(await put(session, 'in/a.jpg'), 'InvalidAccessKeyId');
});

test('STS: a session has the rights of its user, restricted by its policy', async () => {
  await using store = await startStore();
  await store.store.createBucket({ name: Bucket, owner: ANA.accessKey });
  await store.store.createBucket({ name: 'bens', owner: BEN.accessKey });
  const whole = store.client(await assume(store, ANA));
  assert.equal(await put(whole, 'in/a.jpg'), 'no error');
  assert.equal(await put(whole, 'in/a.jpg', 'bens'), 'AccessDenied');
  const narrow = store.client(
    await assume(
      store,
      ANA,
      policy(
        { Action: ['s3:GetObject'], Resource: ['arn:aws:s3:::photos/in/*', 'arn:aws:s3:::bens/*'] },
        {
          Action: ['s3:ListBucket'],
          Resource: ['arn:aws:s3:::photos'],
          Condition: { StringLike: { 's3:prefix': 'in/*' } },
        },
      ),
    ),
  );
  assert.equal(await get(narrow, 'in/a.jpg'), 'no error');
  assert.equal(await put(narrow, 'in/a.jpg'), 'AccessDenied');
  assert.equal(await get(narrow, 'a', 'bens'), 'AccessDenied');
  assert.equal(await list(narrow, 'in/'), 'no error');
  assert.equal(await list(narrow, 'out/'), 'AccessDenied');
  assert.equal(await list(narrow), 'AccessDenied');
});

test('STS: a short duration, the keys of a session, and an unsupported policy are rejected', async () => {
  await using store = await startStore();
  const ask = (keys: Keys, rest: Partial<AssumeRoleCommandInput>) => {
    const sts = new STSClient(configFor(store.endpoint, keys));
    return codeOf(sts.send(new AssumeRoleCommand({ RoleArn: 'arn:aws:iam::0:role/x', RoleSessionName: 'x', ...rest })));
  };
  assert.equal(await ask(ANA, { DurationSeconds: 899 }), 'InvalidParameterValue');
  // In AWS these parameters restrict the keys, so they must not be ignored.
  assert.equal(await ask(ANA, { PolicyArns: [{ arn: 'arn:aws:iam::0:policy/read' }] }), 'InvalidParameterValue');
  assert.equal(await ask(ANA, { DurationSeconds: 31_536_001 }), 'InvalidParameterValue');
  assert.equal(await ask(await assume(store, ANA), {}), 'AccessDenied');
  assert.equal(await ask(MANAGER, {}), 'AccessDenied');
  assert.equal(await ask({ ...ANA, secret: BEN.secret }, {}), 'SignatureDoesNotMatch');
  const strange = JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', NotAction: 's3:*', Resource: '*' }],
  });
  assert.match(await ask(ANA, { Policy: strange }), /^MalformedPolicy/);
  assert.equal(await ask(ANA, { Policy: ' '.repeat(2_049) }), 'InvalidParameterValue');
});

test('STS: a form with too many fields is rejected', async () => {
  await using store = await startStore();
  const sts = new STSClient(configFor(store.endpoint, ANA));
  const PolicyArns = Array.from({ length: 100 }, (_, i) => ({ arn: `arn:aws:iam::0:policy/${i}` }));
  const asked = sts.send(new AssumeRoleCommand({ RoleArn: 'arn:aws:iam::0:role/x', RoleSessionName: 'x', PolicyArns }));
  await assert.rejects(asked, { name: 'InvalidParameterValue', message: 'The form has more than 16 fields.' });
  sts.destroy();
});
