import assert from 'node:assert/strict';
import { hash, randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Network } from '../../lib/http/index.ts';
import { Secret } from '../../lib/secret.ts';
import {
  type ManifestFile,
  type PlannedUpload,
  readManifest,
  type S3Access,
  type StoreAccess,
} from '../../model/job/index.ts';
import type { ObjectStoreServer } from '../../s3-server/index.ts';
import { embeddedStore, s3Access, scratch } from './embedded-store.fixture.ts';
import type { Staging, UploadOrder } from './staging.ts';
import { createTransfers } from './transfers.ts';

type Context = Pick<TestContext, 'after'>;

const LOOPBACK: Network = { address: '127.0.0.0', prefix: 8, family: 'ipv4' };

function transfers(t: Context, networks: Network[] = []): Staging {
  const staging = createTransfers(networks);
  t.after(() => staging.close());
  return staging;
}

function outputs(t: Context, files: Record<string, string | Uint8Array>): string {
  const directory = scratch(t);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(directory, name, '..'), { recursive: true });
    writeFileSync(join(directory, name), content);
  }
  return directory;
}

const to = (bucket: string, folder = 'allowed') => ({ store: 'minio.default', bucket, folder, prefix: [], suffix: [] });

async function uploadAll(
  staging: Staging,
  directory: string,
  access: StoreAccess,
  given: Pick<Partial<UploadOrder>, 'attempt' | 'inputLabel' | 'resumed'> & {
    bucket?: string;
    folder?: string;
    manifest?: string;
  } = {},
) {
  const { bucket = 'outputs', folder, attempt = 'attempt-1', inputLabel, resumed = false, manifest } = given;
  const label = inputLabel !== undefined && { inputLabel };
  const { files } = await staging.plan(directory, [to(bucket, folder)]);
  const stores = new Map([['minio.default', access]]);
  const list = manifest !== undefined && { manifest: { store: 'minio.default', bucket, key: manifest } };
  return staging.upload({ directory, files, stores, attempt, resumed, ...label, ...list });
}

const fetching = (access: S3Access, key: string, target: string, bucket = 'inputs') => ({
  from: { store: 'minio.default', bucket, key },
  access,
  to: target,
});

test('fetch: an object with any key becomes a file', async (t) => {
  const { store, access } = await embeddedStore(t);
  const key = "sub dir/ä+%20?#&'*!().txt";
  await store.putObject({ bucket: 'inputs', key }, Buffer.from('hello'));
  const target = join(scratch(t), 'input');
  await transfers(t).fetch(fetching(access, key, target));
  assert.equal(readFileSync(target, 'utf8'), 'hello');
});

test('fetch: an empty object becomes an empty file, and replaces an old one', async (t) => {
  const { store, access } = await embeddedStore(t);
  await store.putObject({ bucket: 'inputs', key: 'a' }, Buffer.alloc(0));
  const target = join(scratch(t), 'input');
  writeFileSync(target, 'old');
  writeFileSync(`${target}.part`, 'of somebody who was killed');
  await transfers(t).fetch(fetching(access, 'a', target));
  assert.deepEqual([readFileSync(target, 'utf8'), readdirSync(join(target, '..'))], ['', ['input']]);
});

const reasons: { name: string; change: Partial<S3Access>; key?: string; bucket?: string; message: RegExp }[] = [
  {
    name: 'a missing object',
    change: {},
    key: 'no/such.txt',
    message:
      /^the input "no\/such\.txt" could not be read from minio\.default, bucket "inputs": the object does not exist$/,
  },
  { name: 'a bucket without access', change: {}, bucket: 'secrets', message: /bucket "secrets": access is denied$/ },
  {
    name: 'unknown keys',
    change: { accessKey: new Secret('nobody') },
    message: /the store does not know the access key$/,
  },
  { name: 'a wrong secret', change: { secretKey: new Secret('wrong') }, message: /the secret key is wrong$/ },
  {
    name: 'a store that a user may not name',
    change: { guarded: true },
    message: /: the address 127\.0\.0\.1 is not one that definitions may name: ask the operator to add its network/,
  },
  {
    name: 'an invalid address',
    change: { endpoint: 'minio' },
    message: /: "minio" is not an address of a store$/,
  },
];
for (const { name, change, key = 'a.txt', bucket, message } of reasons) {
  test(`fetch: the error describes ${name}`, async (t) => {
    const { store, access } = await embeddedStore(t);
    await store.createBucket({ name: 'secrets', owner: 'somebody' });
    await store.putObject({ bucket: 'inputs', key: 'a.txt' }, Buffer.from('x'));
    const target = join(scratch(t), 'input');
    const order = fetching({ ...access, ...change }, key, target, bucket);
    await assert.rejects(transfers(t).fetch(order), { code: 'input-failed', message });
    assert.deepEqual(readdirSync(join(target, '..')), []);
  });
}

test('fetch: a guarded store in a network of the operator is reached', async (t) => {
  const { store, access } = await embeddedStore(t);
  await store.putObject({ bucket: 'inputs', key: 'a' }, Buffer.from('x'));
  const target = join(scratch(t), 'input');
  await transfers(t, [LOOPBACK]).fetch(fetching({ ...access, guarded: true }, 'a', target));
  assert.equal(readFileSync(target, 'utf8'), 'x');
});

test('upload: files get the label of their input as metadata, if there is one', async (t) => {
  const { store, access } = await embeddedStore(t);
  const directory = outputs(t, { 'a.txt': 'hello' });
  await uploadAll(transfers(t), directory, access, { inputLabel: 'input-1' });
  assert.equal(
    store.statObject({ bucket: 'outputs', key: 'allowed/a.txt' })?.headers['x-amz-meta-oscar-input'],
    'input-1',
  );
});

test('upload: files get their attempt as metadata', async (t) => {
  const { store, access } = await embeddedStore(t);
  const directory = outputs(t, { 'a.txt': 'hello', 'sub/ä b.txt': 'deep', empty: '' });
  await uploadAll(transfers(t), directory, access);
  const { objects } = store.listObjects('outputs', { limit: 10 });
  assert.deepEqual(
    objects.map(({ key, size, headers }) => [key, size, headers['x-amz-meta-oscar-attempt']]),
    [
      ['allowed/a.txt', 5, 'attempt-1'],
      ['allowed/empty', 0, 'attempt-1'],
      ['allowed/sub/ä b.txt', 4, 'attempt-1'],
    ],
  );
});

test('upload: a large file is uploaded in parts and downloaded unchanged', async (t) => {
  const { store, access } = await embeddedStore(t);
  const block = randomBytes(1024 * 1024);
  const directory = scratch(t);
  for (let i = 0; i < 12; i++) writeFileSync(join(directory, 'large'), block, { flag: 'a' });
  const staging = transfers(t);
  await uploadAll(staging, directory, access);
  const object = store.statObject({ bucket: 'outputs', key: 'allowed/large' });
  assert.match(object?.eTag ?? '', /-3$/);
  assert.equal(object?.headers['x-amz-meta-oscar-attempt'], 'attempt-1');

  const target = join(scratch(t), 'input');
  await staging.fetch(fetching(access, 'allowed/large', target, 'outputs'));
  assert.ok(readFileSync(target).equals(readFileSync(join(directory, 'large'))));
});

test('upload: the first failure names file, store and reason, and stops the rest', async (t) => {
  const { store, access } = await embeddedStore(t);
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`${i}`.padStart(3, '0'), 'x']));
  const directory = outputs(t, { 'a/b.txt': 'x' });
  await assert.rejects(uploadAll(transfers(t), directory, access, { bucket: 'missing' }), {
    code: 'output-failed',
    message: 'the output "a/b.txt" could not be written to minio.default, bucket "missing": the bucket does not exist',
  });
  const staging = transfers(t);
  const { files } = await staging.plan(outputs(t, many), [to('outputs')]);
  const [first, ...others] = files as [PlannedUpload, ...PlannedUpload[]];
  const forbidden = { ...first, to: { ...first.to, key: 'forbidden/000' } };
  const order = { directory: outputs(t, many), files: [forbidden, ...others], attempt: 'a', resumed: false };
  await assert.rejects(staging.upload({ ...order, stores: new Map([['minio.default', access]]) }), {
    message: 'the output "000" could not be written to minio.default, bucket "outputs": access is denied',
  });
  assert.ok(store.listObjects('outputs', { limit: 100 }).objects.length < 99);
});

test('upload: a store without keys is reported', async (t) => {
  const directory = outputs(t, { a: 'x' });
  const { files } = await transfers(t).plan(directory, [to('outputs')]);
  const order = { directory, files, stores: new Map(), attempt: 'a', resumed: false };
  await assert.rejects(
    transfers(t).upload(order),
    /could not be written to minio\.default.*: there are no keys for this/,
  );
});

test('upload: a missing file is an error', async (t) => {
  const { access } = await embeddedStore(t);
  const staging = transfers(t);
  const { files } = await staging.plan(outputs(t, { a: 'x' }), [to('outputs')]);
  const order = { directory: scratch(t), files, attempt: 'a', resumed: false };
  const stores = new Map([['minio.default', access]]);
  await assert.rejects(staging.upload({ ...order, stores }), /the output "a" could not be written .*: ENOENT/);
});

test('upload: a resumed upload skips files of the same attempt and overwrites others', async (t) => {
  const { store, access } = await embeddedStore(t);
  const staging = transfers(t);
  await uploadAll(staging, outputs(t, { a: 'first' }), access, { attempt: 'one' });
  await store.putObject({ bucket: 'outputs', key: 'allowed/b' }, Buffer.from('of somebody'));
  const again = outputs(t, { a: 'second', b: 'second' });

  const content = async (key: string) =>
    Buffer.concat(await store.readObject({ bucket: 'outputs', key }).stream.toArray()).toString();
  await uploadAll(staging, again, access, { attempt: 'one', resumed: true });
  assert.deepEqual([await content('allowed/a'), await content('allowed/b')], ['first', 'second']);
  await uploadAll(staging, again, access, { attempt: 'two', resumed: true });
  assert.equal(await content('allowed/a'), 'second');
});

test('upload: resumed with keys that cannot read, it writes all files', async (t) => {
  const { store, access } = await embeddedStore(t);
  const policy = JSON.stringify({
    Version: '2012-10-17',
    Statement: [{ Effect: 'Allow', Action: 's3:PutObject', Resource: 'arn:aws:s3:::outputs/*' }],
  });
  const keys = await store.issueKeys({ parent: 'job', policy, ttl: 60_000 });
  const { secretKey, sessionToken } = keys;
  const blind = { ...access, accessKey: new Secret(keys.accessKey), secretKey, sessionToken };
  await uploadAll(transfers(t), outputs(t, { a: 'x' }), blind, { resumed: true });
  assert.equal(store.statObject({ bucket: 'outputs', key: 'allowed/a' })?.size, 1);
});

test('fetch: with an eTag only that version is fetched', async (t) => {
  const { store, access } = await embeddedStore(t);
  const { eTag } = await store.putObject({ bucket: 'inputs', key: 'a' }, Buffer.from('first'));
  const target = join(scratch(t), 'input');
  await transfers(t).fetch({ ...fetching(access, 'a', target), eTag });
  assert.equal(readFileSync(target, 'utf8'), 'first');
  await store.putObject({ bucket: 'inputs', key: 'a' }, Buffer.from('second'));
  await assert.rejects(transfers(t).fetch({ ...fetching(access, 'a', target), eTag }), {
    code: 'input-failed',
    message: /: the object has changed$/,
  });
  assert.equal(readFileSync(target, 'utf8'), 'first');
});

/** Reads the manifest from the store, with its digest. */
async function manifestAt(
  store: ObjectStoreServer,
  key: string,
): Promise<{ files: readonly ManifestFile[]; digest: string }> {
  const bytes = Buffer.concat(await store.readObject({ bucket: 'outputs', key }).stream.toArray());
  const files = readManifest(bytes);
  assert.ok(typeof files !== 'string', JSON.stringify(files));
  return { files, digest: hash('sha256', bytes) };
}

test('manifest: it lists all uploaded files, and its digest is returned', async (t) => {
  const { store, access } = await embeddedStore(t);
  const large = randomBytes(11 * 1024 * 1024);
  const directory = outputs(t, { 'b.txt': 'hello', 'a/ä b': '', large });
  const digest = await uploadAll(transfers(t), directory, access, { manifest: 'allowed/manifest' });
  const manifest = await manifestAt(store, 'allowed/manifest');
  assert.equal(digest, manifest.digest);
  const stored = ['a/ä b', 'b.txt', 'large'].map((name) => {
    const { size = -1, eTag = '' } = store.statObject({ bucket: 'outputs', key: `allowed/${name}` }) ?? {};
    return { name, size, etag: eTag };
  });
  assert.deepEqual(manifest.files, stored);
  assert.match(manifest.files[2]?.etag ?? '', /-3$/);
});

test('manifest: it is also written for no files, and only if the order asks for it', async (t) => {
  const { store, access } = await embeddedStore(t);
  const digest = await uploadAll(transfers(t), scratch(t), access, { manifest: 'allowed/manifest' });
  assert.deepEqual(await manifestAt(store, 'allowed/manifest'), { files: [], digest });
  assert.equal(await uploadAll(transfers(t), outputs(t, { a: 'x' }), access), undefined);
});

test('manifest: an upload that was interrupted anywhere ends with the same manifest', async (t) => {
  const { store, access } = await embeddedStore(t);
  const staging = transfers(t);
  const directory = outputs(t, { a: 'x', b: 'y', large: randomBytes(6 * 1024 * 1024) });
  const given = { manifest: 'allowed/manifest', resumed: true };
  const first = await uploadAll(staging, directory, access, given);
  for (const lost of [['manifest'], ['a', 'manifest'], ['large', 'b', 'manifest'], []]) {
    for (const name of lost) await store.deleteObject({ bucket: 'outputs', key: `allowed/${name}` });
    assert.equal(await uploadAll(staging, directory, access, given), first);
    assert.equal((await manifestAt(store, 'allowed/manifest')).digest, first);
  }
});

test('manifest: there is none if a file or the manifest could not be written', async (t) => {
  const { store, access } = await embeddedStore(t);
  const directory = outputs(t, { a: 'x' });
  const given = { folder: 'forbidden', manifest: 'allowed/manifest' };
  await assert.rejects(uploadAll(transfers(t), directory, access, given), /the output "a" could not be written/);
  assert.equal(store.statObject({ bucket: 'outputs', key: 'allowed/manifest' }), undefined);
  await assert.rejects(uploadAll(transfers(t), directory, access, { manifest: 'forbidden' }), {
    code: 'output-failed',
    message: 'the manifest of the outputs could not be written to minio.default, bucket "outputs": access is denied',
  });
});

test('manifest: too many files are rejected before any upload', async (t) => {
  const { store, access } = await embeddedStore(t);
  const at = { store: 'minio.default', bucket: 'outputs', key: 'allowed/x' };
  const files = Array.from({ length: 100_001 }, (_, n) => ({ name: `${n}`, bytes: 1, to: at }));
  const order = { directory: scratch(t), files, attempt: 'a', resumed: false, manifest: at };
  const stores = new Map([['minio.default', access]]);
  await assert.rejects(transfers(t).upload({ ...order, stores }), {
    code: 'output-failed',
    message: /100001.*archive/,
  });
  assert.deepEqual(store.listObjects('outputs', { limit: 1 }).objects, []);
});

test('fetch: the error says that a store is unreachable', async (t) => {
  const target = join(scratch(t), 'input');
  await assert.rejects(transfers(t).fetch(fetching(s3Access(1), 'a', target)), {
    message: /: "127\.0\.0\.1" cannot be reached: nothing listens there$/,
  });
});
