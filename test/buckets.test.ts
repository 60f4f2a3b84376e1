import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  GetObjectCommand,
  ListBucketsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { ALICE, BOB } from './support/issuer-users.ts';
import { ADMIN, startTestManager, type TestManager } from './support/manager.ts';
import { startPeople } from './support/people.ts';

const { issuer, alice, bob, carol, settings } = await startPeople();
let manager: TestManager;

before(async () => {
  manager = await startTestManager({ ...settings, JOB_LISTING_LIMIT: '3' });
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  await issuer.stop();
});

interface Provider {
  endpoint: string;
  access_key: string;
  secret_key: string;
  region: string;
}

/** An S3 client with the keys that `/system/config` gives. */
async function s3(as: string): Promise<S3Client> {
  const { json } = await manager.call('GET', '/system/config', { as });
  const { minio_provider } = json() as { minio_provider: Provider };
  return clientOf(minio_provider);
}

function clientOf({ endpoint, region, access_key, secret_key }: Provider): S3Client {
  const credentials = { accessKeyId: access_key, secretAccessKey: secret_key };
  return new S3Client({ endpoint, region, forcePathStyle: true, credentials });
}

const bucketCall = (method: string, as: string, body: unknown) => manager.call(method, '/system/buckets', { as, body });
const names = async (as: string) =>
  ((await manager.call('GET', '/system/buckets', { as })).json() as { bucket_name: string }[]).map(
    ({ bucket_name }) => bucket_name,
  );

describe('buckets', () => {
  test('life cycle: create 201, raw text in the list, change 204, delete 204', async () => {
    assert.equal((await bucketCall('POST', alice, { bucket_name: 'life-b' })).status, 201);
    const raw = async () => (await manager.call('GET', '/system/buckets', { as: alice })).text;
    assert.ok((await raw()).includes('"bucket_name":"life-b","visibility":"private","allowed_users":null'));
    for (const visibility of ['restricted', 'public', 'private']) {
      const change = { bucket_name: 'life-b', visibility, allowed_users: [BOB.sub] };
      assert.equal((await bucketCall('PUT', alice, change)).status, 204);
      assert.ok((await raw()).includes(`"bucket_name":"life-b","visibility":"${visibility}"`));
    }
    assert.equal((await manager.call('DELETE', '/system/buckets/life-b', { as: alice })).status, 204);
    assert.ok(!(await names(alice)).includes('life-b'));
  });

  test('access: who may see, use and change a bucket (S7, S8)', async () => {
    await bucketCall('POST', alice, { bucket_name: 'who-priv' });
    await bucketCall('POST', alice, { bucket_name: 'who-restr', visibility: 'restricted', allowed_users: [BOB.sub] });
    await bucketCall('POST', alice, { bucket_name: 'who-pub', visibility: 'public' });
    const status = async (as: string, bucket: string) =>
      (await manager.call('GET', `/system/buckets/${bucket}`, { as })).status;
    const table: [string, string, number][] = [
      [alice, 'who-priv', 200],
      [bob, 'who-priv', 403],
      [bob, 'who-restr', 200],
      [carol, 'who-restr', 403],
      [carol, 'who-pub', 200],
      [ADMIN, 'who-priv', 200],
      [alice, 'who-nope', 403],
      [ADMIN, 'who-nope', 404],
    ];
    for (const [as, bucket, expected] of table) assert.equal(await status(as, bucket), expected, bucket);
    for (const bucket of ['who-priv', 'who-restr', 'who-pub']) {
      assert.equal((await bucketCall('PUT', bob, { bucket_name: bucket, visibility: 'private' })).status, 403);
      assert.equal((await manager.call('DELETE', `/system/buckets/${bucket}`, { as: bob })).status, 403);
    }
    assert.deepEqual(
      (await names(bob)).filter((name) => name.startsWith('who-')),
      ['who-pub', 'who-restr'],
    );
  });

  test('access over S3 is the same, with the keys of /system/config', async () => {
    await bucketCall('POST', alice, { bucket_name: 'over-s3', visibility: 'restricted', allowed_users: [BOB.sub] });
    const put = async (as: string) =>
      (await s3(as)).send(new PutObjectCommand({ Bucket: 'over-s3', Key: 'a/b.txt', Body: 'hello' }));
    await put(bob);
    await assert.rejects(put(carol), { name: 'AccessDenied' });
    const read = await (await s3(alice)).send(new GetObjectCommand({ Bucket: 'over-s3', Key: 'a/b.txt' }));
    assert.equal(await read.Body?.transformToString(), 'hello');
    const { Buckets } = await (await s3(carol)).send(new ListBucketsCommand({}));
    assert.ok(!Buckets?.some(({ Name }) => Name === 'over-s3'));
    await bucketCall('PUT', alice, { bucket_name: 'over-s3', visibility: 'private' });
    await assert.rejects(put(bob), { name: 'AccessDenied' });
  });

  test('a path creates its bucket and folder, and access applies to the whole bucket (R32)', async () => {
    assert.equal(
      (await bucketCall('POST', alice, { bucket_name: 'with-folder/deep/er', visibility: 'public' })).status,
      201,
    );
    const { text } = await manager.call('GET', '/system/buckets/with-folder', { as: bob });
    assert.match(
      text,
      /"objects":\[\{"object_name":"deep\/er\/","size_bytes":0,"last_modified":"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000 UTC"\}\]/,
    );
  });

  test('objects are listed in pages', async () => {
    await bucketCall('POST', alice, { bucket_name: 'pages-b' });
    const client = await s3(alice);
    await Promise.all(
      [1, 2, 3, 4, 5, 6, 7].map((n) =>
        client.send(new PutObjectCommand({ Bucket: 'pages-b', Key: `k${n}`, Body: 'x' })),
      ),
    );
    const keys: string[] = [];
    let query = '';
    for (;;) {
      const { json } = await manager.call('GET', `/system/buckets/pages-b${query}`, { as: alice });
      const page = json() as {
        objects: { object_name: string }[];
        next_page?: string;
        is_truncated: boolean;
        returned_items: number;
      };
      keys.push(...page.objects.map(({ object_name }) => object_name));
      assert.equal(page.returned_items, page.objects.length);
      assert.equal(page.is_truncated, page.next_page !== undefined);
      if (page.next_page === undefined) break;
      query = `?page=${encodeURIComponent(page.next_page)}&limit=1`;
    }
    assert.deepEqual(keys, ['k1', 'k2', 'k3', 'k4', 'k5', 'k6', 'k7']);
    assert.equal((await manager.call('GET', '/system/buckets/pages-b?page=zz', { as: alice })).status, 400);
  });

  const bad: [string, unknown][] = [
    ['no name', {}],
    ['a name that is none', { bucket_name: 'B_' }],
    ['a name of the manager', { bucket_name: 'oscar-staging-x' }],
    ['a path upwards', { bucket_name: 'abc/../x' }],
    ['an unknown visibility (S11)', { bucket_name: 'abcd', visibility: 'odd' }],
    ['users that are no list', { bucket_name: 'abcd', allowed_users: 'bob' }],
    ['no JSON', '{'],
  ];
  for (const [name, body] of bad) {
    test(`${name} is refused`, async () => assert.equal((await bucketCall('POST', alice, body)).status, 400));
  }

  test('create bucket: an existing name is rejected for every owner', async () => {
    await bucketCall('POST', alice, { bucket_name: 'taken-b' });
    assert.equal((await bucketCall('POST', alice, { bucket_name: 'taken-b' })).status, 400);
    assert.equal((await bucketCall('POST', bob, { bucket_name: 'taken-b' })).status, 400);
  });
});

describe('presigned URLs', () => {
  const presign = (as: string, bucket: string, body: unknown) =>
    manager.call('POST', `/system/buckets/${bucket}/presign`, { as, body });

  test('allow upload and download without other credentials', async () => {
    await bucketCall('POST', alice, { bucket_name: 'signed-b' });
    const upload = await presign(alice, 'signed-b', {
      object_key: '/dir/a.txt/',
      operation: 'upload',
      content_type: 'text/plain',
      extra_headers: { 'X-Amz-Meta-K': 'v' },
    });
    const up = upload.json() as { url: string; headers: Record<string, string>; method: string };
    assert.match(
      upload.text,
      /^\{"object_key":"dir\/a\.txt","operation":"upload","method":"PUT","url":"[^"]+","expires_at":"[^"]+Z","headers":\{"Content-Type":"text\/plain","X-Amz-Meta-K":"v"\}\}$/,
    );
    assert.equal((await fetch(up.url, { method: 'PUT', headers: up.headers, body: 'hello' })).status, 200);
    const download = await presign(alice, 'signed-b', {
      object_key: 'dir/a.txt',
      operation: 'DOWNLOAD',
      content_type: 'text/csv',
    });
    const answer = await fetch((download.json() as { url: string }).url);
    assert.equal(await answer.text(), 'hello');
    assert.equal(answer.headers.get('content-type'), 'text/csv');
  });

  test('are given only to users who may use the bucket', async () => {
    const body = { object_key: 'x', operation: 'download' };
    assert.equal((await presign(bob, 'signed-b', body)).status, 403);
    assert.equal((await presign(ADMIN, 'signed-b', body)).status, 200);
    assert.equal((await presign(alice, 'no-such-b', body)).status, 404);
  });

  for (const body of [
    { object_key: 'x', operation: 'delete' },
    { object_key: 'x' },
    { operation: 'upload' },
    { object_key: '/', operation: 'upload' },
    { object_key: 'x', operation: 'upload', expires_in: 604801 },
    { object_key: 'x', operation: 'upload', expires_in: -1 },
    { object_key: 'x', operation: 'upload', extra_headers: { 'a b': 'c' } },
  ]) {
    test(`${JSON.stringify(body)} is refused`, async () =>
      assert.equal((await presign(alice, 'signed-b', body)).status, 400));
  }
});

test('store keys: rotation on request invalidates the old keys', async () => {
  await bucketCall('POST', alice, { bucket_name: 'rotate-b' });
  const old = await s3(alice);
  const list = new ListObjectsV2Command({ Bucket: 'rotate-b' });
  await old.send(list);
  const { json } = await manager.call('POST', '/system/config/keys', { as: alice });
  const { minio_provider } = json() as { minio_provider: Provider };
  await assert.rejects(old.send(list));
  await clientOf(minio_provider).send(list);
  await (await s3(alice)).send(list);
  assert.equal((await manager.call('POST', '/system/config/keys', { as: ADMIN })).status, 400);
});

describe('buckets of services', () => {
  const service = (name: string, more: Record<string, unknown> = {}) => ({
    name,
    image: 'ubuntu',
    script: 'echo',
    input: [{ storage_provider: 'minio.default', path: `${name}/in` }],
    output: [{ storage_provider: 'minio.default', path: `${name}/out` }],
    ...more,
  });
  const call = (method: string, as: string, body: unknown) => manager.call(method, '/system/services', { as, body });
  const remove = (name: string, as: string) => manager.call('DELETE', `/system/services/${name}`, { as });
  const visibility = async (bucket: string) =>
    ((await manager.call('GET', `/system/buckets/${bucket}`, { as: ADMIN })).json() as { visibility?: string })
      .visibility;

  test('are created and deleted with the service, and follow its visibility', async () => {
    assert.equal((await call('POST', alice, service('svc-b'))).status, 201);
    const { text } = await manager.call('GET', '/system/buckets/svc-b', { as: alice });
    assert.ok(text.includes('"metadata":{"from_service":"svc-b","owner":"'), text);
    assert.match(text, /"object_name":"in\/".*"object_name":"out\/"/);
    assert.equal((await call('PUT', alice, service('svc-b', { visibility: 'public' }))).status, 204);
    assert.equal(await visibility('svc-b'), 'public');
    assert.equal((await call('PUT', alice, service('svc-b'))).status, 204);
    assert.equal(await visibility('svc-b'), 'private');
    assert.equal((await bucketCall('PUT', alice, { bucket_name: 'svc-b', visibility: 'public' })).status, 403, '(S8)');
    assert.equal((await remove('svc-b', alice)).status, 204);
    assert.ok(!(await names(ADMIN)).includes('svc-b'));
  });

  test('a bucket of another user is 409 and nothing changes (S5)', async () => {
    await bucketCall('POST', bob, { bucket_name: 'bobs-b', visibility: 'public' });
    const theft = service('thief', { output: [{ storage_provider: 'minio.default', path: 'bobs-b/out' }] });
    assert.equal((await call('POST', alice, theft)).status, 409);
    assert.equal((await manager.call('GET', '/system/services/thief', { as: ADMIN })).status, 404);
    assert.ok(!(await names(ADMIN)).includes('thief'), 'the bucket that was made is gone again');
    assert.equal((await call('POST', alice, service('thief'))).status, 201);
    assert.equal((await call('PUT', alice, theft)).status, 409);
    assert.ok((await names(bob)).includes('bobs-b'));
    assert.equal((await remove('thief', alice)).status, 204);
    assert.ok((await names(bob)).includes('bobs-b'));
  });

  test('an existing bucket of the owner is used and not deleted', async () => {
    await bucketCall('POST', alice, { bucket_name: 'mine-b', visibility: 'public' });
    const body = service('uses-mine', { output: [{ storage_provider: 'minio.default', path: 'mine-b/out' }] });
    assert.equal((await call('POST', alice, body)).status, 201);
    assert.equal(await visibility('mine-b'), 'public');
    await remove('uses-mine', alice);
    assert.ok((await names(alice)).includes('mine-b'));
  });

  test('a shared bucket is deleted with its last service', async () => {
    const shared = { input: [{ storage_provider: 'minio.default', path: 'shared-b/in' }], output: [] };
    await call('POST', alice, service('first-s', shared));
    await call('POST', alice, service('second-s', shared));
    await remove('first-s', alice);
    assert.ok((await names(alice)).includes('shared-b'));
    await remove('second-s', alice);
    assert.ok(!(await names(alice)).includes('shared-b'));
  });

  test('a bucket that is removed from the definition stays, private, with its data', async () => {
    const wider = service('moves', {
      visibility: 'public',
      output: [{ storage_provider: 'minio.default', path: 'moves-out/x' }],
    });
    assert.equal((await call('POST', alice, wider)).status, 201);
    assert.equal((await call('PUT', alice, service('moves', { visibility: 'public' }))).status, 204);
    assert.equal(await visibility('moves-out'), 'private');
    assert.equal(await visibility('moves'), 'public');
  });

  const isolated = (name: string, more: object = {}) =>
    service(name, { visibility: 'restricted', isolation_level: 'USER', allowed_users: [BOB.sub], ...more });
  const putAsBob = async (Bucket: string) =>
    (await s3(bob)).send(new PutObjectCommand({ Bucket, Key: 'in/x', Body: 'x' }));

  test('isolation by user: each user has an own bucket, which is removed with the service if it has no files', async () => {
    assert.equal((await call('POST', alice, isolated('iso-s'))).status, 201);
    assert.ok((await names(bob)).includes('iso-s-00000002-b'));
    assert.ok(!(await names(alice)).includes('iso-s-00000002-b'));
    await remove('iso-s', alice);
    assert.ok(!(await names(bob)).includes('iso-s-00000002-b'));
  });

  test('isolation by user: an owner who is named has an own bucket too, also after the answer is sent back', async () => {
    assert.equal((await call('POST', alice, isolated('iso-o', { allowed_users: [ALICE.sub, BOB.sub] }))).status, 201);
    const own = ['iso-o-00000001-a', 'iso-o-00000002-b'];
    const shown = await manager.call('GET', '/system/services/iso-o', { as: alice });
    const seen = shown.json() as { bucket_list: string[]; allowed_users: string[] };
    assert.deepEqual([seen.bucket_list, seen.allowed_users], [own, [ALICE.sub, BOB.sub]]);
    assert.equal((await call('PUT', alice, seen)).status, 204);
    assert.ok((await names(alice)).includes('iso-o-00000001-a'));

    assert.equal((await call('POST', alice, isolated('iso-n'))).status, 201);
    const other = await manager.call('GET', '/system/services/iso-n', { as: alice });
    assert.equal((await call('PUT', alice, other.json() as object)).status, 204);
    assert.ok(!(await names(alice)).includes('iso-n-00000001-a'), 'an owner who is only shown has none');
    for (const name of ['iso-o', 'iso-n']) await remove(name, alice);
    assert.ok(!(await names(alice)).some((name) => own.includes(name)));
  });

  for (const [title, name, change] of [
    ['of a user who leaves', 'iso-l', { allowed_users: ['somebody-else'] }],
    ['of a service without isolation', 'iso-w', { isolation_level: 'SERVICE' }],
    ['of a deleted service', 'iso-d', undefined],
  ] as const) {
    test(`isolation by user: the bucket ${title} is removed; one with files stays the user’s, and the log says so`, async () => {
      const input = ['a', 'b'].map((each) => ({ storage_provider: 'minio.default', path: `${name}-${each}/in` }));
      const [full, empty] = [`${name}-a-00000002-b`, `${name}-b-00000002-b`];
      assert.equal((await call('POST', alice, isolated(name, { input }))).status, 201);
      assert.ok((await names(bob)).includes(empty));
      await putAsBob(full);
      const answer = change
        ? await call('PUT', alice, isolated(name, { input, ...change }))
        : await remove(name, alice);
      assert.equal(answer.status, 204, answer.text);
      const left = await names(bob);
      assert.deepEqual([left.includes(full), left.includes(empty)], [true, false]);
      const logged = manager.log.filter(({ bucket }) => bucket === full);
      assert.deepEqual(
        logged.map(({ user, service: of }) => [user, of]),
        [[BOB.sub, name]],
      );
    });
  }

  test('an output under an input of the same service is rejected as a loop', async () => {
    const loop = service('loop-s', { output: [{ storage_provider: 'minio.default', path: 'loop-s/in/results' }] });
    const answer = await call('POST', alice, loop);
    assert.equal(answer.status, 400);
    assert.match(answer.text, /^output\[0\]\.path: lies under the input/);
  });
});
