import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { hash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { TEST_CERTIFICATE } from '../../lib/http/certificate.fixture.ts';
import type { S3Access } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { davServer } from './dav-server.fixture.ts';
import { embeddedStore, s3Access, scratch } from './embedded-store.fixture.ts';
import type { UploadOrder } from './staging.ts';
import { createStaging } from './worker-pool.ts';

type Context = Pick<TestContext, 'after'>;
const linux = process.platform === 'linux' ? false : 'needs /proc';

function pool(t: Context, size = 2) {
  const staging = createStaging({ workers: size, networks: [] });
  t.after(() => staging.close());
  return staging;
}

/** The worker processes of this process or of another one. */
function workers(of = process.pid): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const [, parent] = /\nPPid:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
        const running = !/\nState:\s+Z/.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
        const mine = Number(parent) === of && running;
        return mine && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('staging/transfers/worker.ts');
      } catch {
        return false;
      }
    });
}

const fetching = (access: S3Access, key: string, to: string, bucket = 'inputs') => ({
  from: { store: 'minio.default', bucket, key },
  access,
  to,
});

async function uploading(staging: ReturnType<typeof pool>, directory: string, access: S3Access): Promise<UploadOrder> {
  const output = { store: 'minio.default', bucket: 'outputs', folder: 'allowed', prefix: [], suffix: [] };
  const { files } = await staging.plan(directory, [output]);
  const stores = new Map([['minio.default', access]]);
  return { directory, files, stores, attempt: 'attempt-1', resumed: false };
}

test('workers: they do all staging, many orders at once', async (t) => {
  const { store, access } = await embeddedStore(t);
  const staging = pool(t);
  const directory = scratch(t);
  const names = Array.from({ length: 40 }, (_, i) => `${i}`);
  for (const name of names) await store.putObject({ bucket: 'inputs', key: name }, Buffer.from(`content ${name}`));
  mkdirSync(join(directory, 'outputs'));
  await Promise.all(names.map((name) => staging.fetch(fetching(access, name, join(directory, 'outputs', name)))));
  const manifest = { store: 'minio.default', bucket: 'outputs', key: 'allowed/manifest.json' };
  const order = await uploading(staging, join(directory, 'outputs'), access);
  const digest = await staging.upload({ ...order, manifest });
  const list = Buffer.concat(await store.readObject(manifest).stream.toArray());
  assert.equal(digest, hash('sha256', list));
  assert.equal(store.listObjects('outputs', { limit: 100 }).objects.length, 41);
  assert.equal(await staging.pack(join(directory, 'outputs'), join(directory, 'answer')), true);
  assert.match(readFileSync(join(directory, 'answer'), 'latin1'), /^UEsD/);
  assert.equal(await staging.pack(scratch(t), join(directory, 'nothing')), false);
});

test('workers: a failure arrives with code and message', async (t) => {
  const { access } = await embeddedStore(t);
  await assert.rejects(pool(t).fetch(fetching(access, 'a', join(scratch(t), 'input'))), {
    name: 'StagingError',
    code: 'input-failed',
    message: 'the input "a" could not be read from minio.default, bucket "inputs": the object does not exist',
  });
});

test('workers: none is started before the first order', { skip: linux }, async (t) => {
  const staging = pool(t);
  assert.deepEqual(workers(), []);
  await staging.pack(scratch(t), join(scratch(t), 'answer'));
  assert.equal(workers().length, 2);
  await staging.close();
  assert.deepEqual(workers(), []);
});

test('workers: arguments and environment have no keys and no settings of the manager', {
  skip: linux,
}, async (t) => {
  const { store, access } = await embeddedStore(t);
  process.env['HTTPS_PROXY'] = 'http://proxy.invalid:1';
  process.env['OSCAR_PASSWORD'] = 'our password';
  t.after(() => ['HTTPS_PROXY', 'OSCAR_PASSWORD'].forEach((name) => delete process.env[name]));
  const staging = pool(t, 1);
  await store.putObject({ bucket: 'inputs', key: 'a' }, Buffer.from('x'));
  await staging.fetch(fetching(access, 'a', join(scratch(t), 'input')));
  const [pid] = workers();
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
  const names = environment.map((each) => each.split('=')[0]).filter((name) => name !== '');
  const known = ['PATH', 'HOME', 'TZ', 'NODE_EXTRA_CA_CERTS', 'NODE_COMPILE_CACHE', 'NODE_CHANNEL_FD'];
  const own = ['NODE_CHANNEL_SERIALIZATION_MODE', 'AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE'];
  assert.deepEqual(
    names.filter((name) => name !== undefined && ![...known, ...own].includes(name)),
    [],
  );
  const seen = [...environment, readFileSync(`/proc/${pid}/cmdline`, 'utf8')].join('\n');
  for (const secret of [access.accessKey, access.secretKey, access.sessionToken]) {
    assert.ok(secret && !seen.includes(secret.reveal()));
  }
});

/** A store that accepts the first part of an upload and then does not respond until it is released. */
async function stalling(t: Context, real: S3Access) {
  const stalled = Promise.withResolvers<void>();
  let count = 0;
  const server: Server = createServer((request, response) => {
    request.resume();
    if (count++ === 0) return stalled.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    request.once('end', resolve);
    void promise.then(() => (request.method === 'HEAD' ? response.writeHead(404).end() : response.end()));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return { access: { ...real, endpoint: `http://127.0.0.1:${port}` }, stalled: stalled.promise, requests: () => count };
}

test('workers: another worker repeats the order of a killed one', { skip: linux }, async (t) => {
  const { access, stalled, requests } = await stalling(t, s3Access(1));
  const staging = pool(t, 1);
  const directory = scratch(t);
  writeFileSync(join(directory, 'a'), 'x');
  const done = staging.upload(await uploading(staging, directory, access));
  await stalled;
  const [killed = 0] = workers();
  process.kill(killed, 'SIGKILL');
  await done;
  // The stalled request, the check of the store, and the upload.
  assert.equal(requests(), 3);
  const [next] = workers();
  assert.notEqual(next, killed);
});

test('workers: an upload of a killed worker is completed, and uploaded files are not written again', {
  skip: linux,
}, async (t) => {
  const { store, access } = await embeddedStore(t);
  const staging = pool(t, 1);
  const directory = scratch(t);
  for (let i = 0; i < 60; i++) writeFileSync(join(directory, `small-${i}`), 'x');
  const large = randomBytes(24 * 1024 * 1024);
  writeFileSync(join(directory, 'z-large'), large);
  await store.putRule('outputs', { id: 'all', prefix: '' });
  const order = await uploading(staging, directory, access);
  const done = staging.upload(order);
  const arrived = () => store.listObjects('outputs', { limit: 100 }).objects.map(({ key }) => key);
  await eventually(() => assert.ok(arrived().length > 10));
  const early = arrived();
  const [killed = 0] = workers();
  process.kill(killed, 'SIGKILL');
  await done;

  assert.equal(arrived().length, 61);
  const { stream } = store.readObject({ bucket: 'outputs', key: 'allowed/z-large' });
  assert.ok(Buffer.concat(await stream.toArray()).equals(large));
  const written = store.takeEvents(1000).map(({ key }) => key);
  for (const each of early) assert.equal(written.filter((key) => key === each).length, 1, each);
});

test('workers: a large file is never completely in memory', { skip: linux }, async (t) => {
  const { store, access } = await embeddedStore(t);
  const staging = pool(t, 1);
  const directory = scratch(t);
  const peak = () => Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${workers()[0]}/status`, 'utf8'))?.[1]) / 1024;
  const move = async (megabytes: number) => {
    const file = join(directory, 'large');
    writeFileSync(file, Buffer.alloc(megabytes * 1024 * 1024, 'x'));
    await staging.upload(await uploading(staging, directory, access));
    await staging.fetch(fetching(access, 'allowed/large', file, 'outputs'));
    assert.equal(store.statObject({ bucket: 'outputs', key: 'allowed/large' })?.size, megabytes * 1024 * 1024);
  };
  await move(16);
  const before = peak();
  await move(80);
  assert.ok(peak() - before < 40, `${before} MiB, then ${peak()} MiB`);
});

test('workers: an order that kills two workers fails, and the next order finds a worker', {
  skip: linux,
}, async (t) => {
  let count = 0;
  const server = createServer((request) => {
    request.resume();
    count++;
    for (const pid of workers()) process.kill(pid, 'SIGKILL');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const address = server.address();
  const staging = pool(t, 1);
  const access = s3Access(typeof address === 'object' && address ? address.port : 0);
  await assert.rejects(staging.fetch(fetching(access, 'a', join(scratch(t), 'input'))), {
    code: 'staging-unavailable',
    message: /^the process that moves files ended \(SIGKILL\): /,
  });
  assert.equal(count, 2);
  assert.equal(await staging.pack(scratch(t), join(scratch(t), 'answer')), false);
});

test('workers: a killed idle worker is replaced at once', { skip: linux }, async (t) => {
  const staging = pool(t, 1);
  await staging.warm();
  const [killed = 0] = workers();
  process.kill(killed, 'SIGKILL');
  await eventually(() => assert.deepEqual([workers().length, workers().includes(killed)], [1, false]));
});

test('workers: closing fails running orders and rejects new ones', async (t) => {
  const { access, stalled } = await stalling(t, s3Access(1));
  const staging = pool(t, 1);
  const fetched = staging.fetch(fetching(access, 'a', join(scratch(t), 'input')));
  const refused = assert.rejects(fetched, { code: 'staging-unavailable', message: /the manager is stopping/ });
  await stalled;
  await staging.close();
  await refused;
  await assert.rejects(staging.pack(scratch(t), 'answer'), { code: 'staging-unavailable' });
  await assert.rejects(staging.warm(), { code: 'staging-unavailable' });
});

test('workers: they end when the manager is killed, also during an order', {
  skip: linux,
}, async (t) => {
  const { access, stalled } = await stalling(t, s3Access(1));
  const { port } = new URL(access.endpoint);
  const program = join(import.meta.dirname, 'pool.child.ts');
  const manager = spawn(process.execPath, [program, port, join(scratch(t), 'input')], { stdio: 'inherit' });
  t.after(() => manager.kill('SIGKILL'));
  await stalled;
  const started = workers(manager.pid);
  assert.equal(started.length, 2);
  manager.kill('SIGKILL');
  await eventually(() =>
    assert.deepEqual(
      started.filter((pid) => existsSync(`/proc/${pid}`)),
      [],
    ),
  );
});

test('workers: a signal to the process group does not end them', { skip: linux }, async (t) => {
  const staging = pool(t, 1);
  await staging.warm();
  const [before = 0] = workers();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.kill(before, signal);
  await staging.pack(scratch(t), join(scratch(t), 'answer'));
  assert.deepEqual(workers(), [before]);
});

test('workers: they trust the private authority of the operator', async (t) => {
  const { access, files } = await davServer(t);
  files.set('a', Buffer.from('hello'));
  const directory = scratch(t);
  writeFileSync(join(directory, 'ca.pem'), TEST_CERTIFICATE);
  process.env['NODE_EXTRA_CA_CERTS'] = join(directory, 'ca.pem');
  t.after(() => delete process.env['NODE_EXTRA_CA_CERTS']);
  const from = { store: 'webdav.dcache', bucket: '', key: 'a' };
  await pool(t, 1).fetch({ from, access, to: join(directory, 'input') });
  assert.equal(readFileSync(join(directory, 'input'), 'utf8'), 'hello');
});
