import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { s3Access, scratch } from './embedded-store.fixture.ts';
import { Connections } from './remote-store.ts';
import { S3Clients } from './s3.ts';
import { createTransfers } from './transfers.ts';

type Context = Pick<TestContext, 'after'>;
type Answer = (response: ServerResponse, request: IncomingMessage) => void;

/** A faulty store: each request gets the next response; the last one is repeated. */
async function faulty(t: Context, ...answers: Answer[]) {
  const bodies: string[] = [];
  let count = 0;
  const server = createServer((request, response) => {
    const answer = answers[Math.min(count++, answers.length - 1)];
    request.toArray().then(
      (chunks) => {
        bodies.push(Buffer.concat(chunks).toString());
        return answer?.(response, request);
      },
      () => {},
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const staging = createTransfers([]);
  t.after(() => staging.close());
  const access = s3Access((server.address() as AddressInfo).port);
  const target = join(scratch(t), 'input');
  return {
    staging,
    access,
    bodies,
    target,
    requests: () => count,
    fetch: () => staging.fetch({ from: { store: 'minio.default', bucket: 'inputs', key: 'a' }, access, to: target }),
    upload: async (content: string | Uint8Array) => {
      const directory = join(scratch(t), 'outputs');
      mkdirSync(directory);
      writeFileSync(join(directory, 'a'), content);
      const output = { store: 'minio.default', bucket: 'outputs', folder: '', prefix: [], suffix: [] };
      const { files } = await staging.plan(directory, [output]);
      const stores = new Map([['minio.default', access]]);
      await staging.upload({ directory, files, stores, attempt: 'a', resumed: false });
    },
  };
}

const whole: Answer = (response) => response.end('whole');
const busy: Answer = (response) => {
  response.writeHead(503, { 'content-type': 'application/xml' });
  response.end('<Error><Code>SlowDown</Code><Message>private words</Message></Error>');
};
const reset: Answer = (response) => response.socket?.resetAndDestroy();
const short: Answer = (response) => {
  response.writeHead(200, { 'content-length': '5' });
  response.write('who', () => response.socket?.destroy());
};

test('S3: a busy store is retried', async (t) => {
  const { fetch, requests, target } = await faulty(t, busy, whole);
  await fetch();
  assert.deepEqual([readFileSync(target, 'utf8'), requests()], ['whole', 2]);
});

test('S3: an incomplete download is retried from the beginning', async (t) => {
  const { fetch, requests, target } = await faulty(t, short, reset, whole);
  await fetch();
  assert.deepEqual([readFileSync(target, 'utf8'), requests()], ['whole', 3]);
});

test('S3: a download that always breaks is given up', async (t) => {
  const { fetch, requests } = await faulty(t, short);
  await assert.rejects(fetch(), {
    code: 'input-failed',
    message:
      'the input "a" could not be read from minio.default, bucket "inputs": "127.0.0.1" closed the connection before all 5 bytes arrived',
  });
  assert.equal(requests(), 4);
});

test('S3: a retried upload sends the whole body again', async (t) => {
  const { upload, bodies } = await faulty(t, reset, busy, (response) => response.end());
  await upload('content');
  assert.deepEqual(bodies, ['content', 'content', 'content']);
});

test('S3: error codes are shown, messages of the store are not', async (t) => {
  const { upload } = await faulty(t, busy);
  await assert.rejects(upload('content'), { message: /bucket "outputs": the store answered 503 \(SlowDown\)$/ });
});

test('S3: a server that is not a store is reported', async (t) => {
  const { upload } = await faulty(t, (response) => {
    response.writeHead(418, { 'content-type': 'text/html' });
    response.end('<p>a page');
  });
  await assert.rejects(upload('content'), (error: Error) => {
    assert.match(error.message, /the store answered 418|does not answer like a store/);
    assert.doesNotMatch(error.message, /a page/);
    return true;
  });
});

test('S3: redirects are not followed', async (t) => {
  const other = await faulty(t, whole);
  const { fetch } = await faulty(t, (response) => {
    response.writeHead(307, { location: `${other.access.endpoint}/inputs/a` });
    response.end();
  });
  await assert.rejects(fetch(), { code: 'input-failed' });
  assert.equal(other.requests(), 0);
});

test('S3: a failed part is sent again alone', async (t) => {
  const bytes = Buffer.alloc(11 * 1024 * 1024, 'x');
  const parts: string[] = [];
  let failed = false;
  const { upload } = await faulty(t, (response, request) => {
    const { searchParams } = new URL(request.url ?? '', 'http://store');
    const part = searchParams.get('partNumber');
    if (part === null) {
      const element = request.method === 'POST' && searchParams.has('uploads') ? 'Initiate' : 'Complete';
      response.end(`<${element}MultipartUploadResult><UploadId>u</UploadId></${element}MultipartUploadResult>`);
      return;
    }
    parts.push(part);
    if (part === '2' && !failed) {
      failed = true;
      busy(response, request);
      return;
    }
    response.writeHead(200, { etag: `"${part}"` });
    response.end();
  });
  await upload(bytes);
  assert.deepEqual(parts.toSorted(), ['1', '2', '2', '3']);
});

test('S3 clients: they are cached by keys, expire, and are limited', (t) => {
  const connections = new Connections([]);
  t.after(() => connections.close());
  let now = 0;
  const clients = new S3Clients(connections, () => now);
  const access = (secret: string) => s3Access(1, { secretKey: new Secret(secret) });

  const first = clients.client(access('one'));
  assert.equal(clients.client(access('one')), first);
  assert.notEqual(clients.client(access('two')), first);
  assert.notEqual(clients.client({ ...access('one'), guarded: true }), first);

  for (let i = 0; i < 100; i++) clients.client(access(`many ${i}`));
  assert.equal(clients.size, 32);
  now += 300_000;
  clients.client(access('later'));
  assert.equal(clients.size, 1);
});
