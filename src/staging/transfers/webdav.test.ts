import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, type TestContext, test } from 'node:test';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { TEST_CERTIFICATE } from '../../lib/http/certificate.fixture.ts';
import { Secret } from '../../lib/secret.ts';
import type { WebdavAccess } from '../../model/job/index.ts';
import { davServer } from './dav-server.fixture.ts';
import { scratch } from './embedded-store.fixture.ts';
import { createTransfers } from './transfers.ts';

type Context = Pick<TestContext, 'after'>;

const trusted = getCACertificates('default');
before(() => setDefaultCACertificates([...trusted, TEST_CERTIFICATE]));

function transfers(t: Context) {
  const staging = createTransfers([]);
  t.after(() => staging.close());
  return staging;
}

async function upload(t: Context, access: WebdavAccess, files: Record<string, string | Uint8Array>, resumed = false) {
  const directory = scratch(t);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(directory, name, '..'), { recursive: true });
    writeFileSync(join(directory, name), content);
  }
  const staging = transfers(t);
  const output = { store: 'webdav.dcache', bucket: '', folder: 'Users/käthe/results', prefix: [], suffix: [] };
  const plan = await staging.plan(directory, [output]);
  const stores = new Map([['webdav.dcache', access]]);
  await staging.upload({ directory, files: plan.files, stores, attempt: 'a', resumed });
}

function fetch(t: Context, access: WebdavAccess, key: string, to = join(scratch(t), 'input')) {
  return transfers(t).fetch({ from: { store: 'webdav.dcache', bucket: '', key }, access, to });
}

test('WebDAV: a file is read by its path', async (t) => {
  const { access, files } = await davServer(t);
  files.set('a dir/ä#?%.txt', Buffer.from('hello'));
  const to = join(scratch(t), 'input');
  await fetch(t, access, 'a dir/ä#?%.txt', to);
  assert.equal(readFileSync(to, 'utf8'), 'hello');
});

test('WebDAV: files are written, and missing collections are created once', async (t) => {
  const { access, files, requests } = await davServer(t);
  const large = randomBytes(3_000_000);
  await upload(t, access, { 'a.txt': 'hello', empty: '', 'sub/large': large });
  assert.deepEqual([...files.keys()].toSorted(), [
    'Users/käthe/results/a.txt',
    'Users/käthe/results/empty',
    'Users/käthe/results/sub/large',
  ]);
  assert.ok(files.get('Users/käthe/results/sub/large')?.equals(large));
  assert.equal(requests.filter((each) => each === 'MKCOL Users').length, 1);
});

test('WebDAV: a resumed upload writes all files again, because attempts are not stored', async (t) => {
  const { access, files } = await davServer(t);
  await upload(t, access, { a: 'first' });
  await upload(t, access, { a: 'second' }, true);
  assert.equal(files.get('Users/käthe/results/a')?.toString(), 'second');
});

const redirect = { status: 302, headers: { location: 'https://localhost:1/elsewhere' } };
const reasons: { name: string; status: number; headers?: Record<string, string>; message: RegExp }[] = [
  { name: 'a missing file', status: 404, message: /from webdav\.dcache: it does not exist$/ },
  { name: 'missing rights', status: 403, message: /: access is denied$/ },
  { name: 'a redirect, which is not followed', ...redirect, message: /a redirect, which is not followed$/ },
];
for (const { name, status, headers = {}, message } of reasons) {
  test(`WebDAV: the error describes ${name}`, async (t) => {
    const { access, requests } = await davServer(t, () => (_request, response) => {
      response.writeHead(status, headers).end();
    });
    await assert.rejects(fetch(t, access, 'a'), { code: 'input-failed', message });
    assert.deepEqual(requests, ['GET a']);
  });
}

test('WebDAV: the error describes a wrong password', async (t) => {
  const { access } = await davServer(t);
  const wrong = { ...access, password: new Secret('wrong') };
  await assert.rejects(fetch(t, wrong, 'a'), { message: /: the name or the password is wrong$/ });
  await assert.rejects(upload(t, wrong, { a: 'x' }), {
    code: 'output-failed',
    message: 'the output "a" could not be written to webdav.dcache: the name or the password is wrong',
  });
});

test('WebDAV: an early response ends the upload and closes the file', async (t) => {
  const { access } = await davServer(t, (each) =>
    each.startsWith('PUT') ? (_request, response) => response.writeHead(507).end() : undefined,
  );
  await assert.rejects(upload(t, access, { a: randomBytes(20_000_000) }), { message: /: the store is full$/ });
});

test('WebDAV: broken uploads and downloads are retried from the beginning', async (t) => {
  const cut = new Set<string>();
  const { access, files } = await davServer(t, (each) => {
    if (each.startsWith('MKCOL') || cut.has(each)) return undefined;
    cut.add(each);
    return (request, response) => {
      if (request.method === 'GET') response.writeHead(200, { 'content-length': '5' }).write('x');
      request.once('data', () => request.socket.destroy()).once('end', () => request.socket.destroy());
    };
  });
  const large = randomBytes(1_000_000);
  await upload(t, access, { a: large });
  assert.ok(files.get('Users/käthe/results/a')?.equals(large));
  const to = join(scratch(t), 'input');
  await fetch(t, access, 'Users/käthe/results/a', to);
  assert.ok(readFileSync(to).equals(large));
});

test('WebDAV: an untrusted certificate is rejected', async (t) => {
  const { access, requests } = await davServer(t);
  setDefaultCACertificates(trusted);
  t.after(() => setDefaultCACertificates([...trusted, TEST_CERTIFICATE]));
  await assert.rejects(fetch(t, access, 'a'), { message: /: the certificate of "localhost" is not valid: / });
  assert.deepEqual(requests, []);
});

test('WebDAV: a guarded store on this machine and an invalid host are rejected', async (t) => {
  const { access } = await davServer(t);
  await assert.rejects(fetch(t, { ...access, guarded: true }, 'a'), {
    message: /"localhost" has no address that definitions may name/,
  });
  await assert.rejects(fetch(t, { ...access, hostname: 'a b' }, 'a'), { message: /"https:\/\/a b" is not an address/ });
});
