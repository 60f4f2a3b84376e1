import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { crc32 } from 'node:zlib';
import { headOf, openRaw } from './raw-exchange.ts';
import { sign, signedChunks } from './signed-request.ts';
import { ANA, randomContent, startStore, type TestStore } from './start-store.ts';

const bucket = 'photos';
const key = 'in/a';
const path = `/${bucket}/${key}`;

async function startWithBucket() {
  const store = await startStore();
  await store.store.createBucket({ name: bucket, owner: ANA.accessKey });
  return { ...store, [Symbol.asyncDispose]: () => store[Symbol.asyncDispose]() };
}

const signed = (store: TestStore, payload: string, headers: Record<string, string> = {}, method = 'PUT', at = path) =>
  sign({ method, path: at, host: new URL(store.endpoint).host, keys: ANA, payload, headers });

async function content({ store }: TestStore): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of store.readObject({ bucket, key }).stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Files that belong neither to the database nor to an object. */
function leftovers(directory: string): string[] {
  const inside = (name: string) => readdirSync(join(directory, name), { recursive: true, withFileTypes: true });
  return [...inside('content'), ...inside('unfinished')].filter((each) => each.isFile()).map(({ name }) => name);
}

const base64Crc32 = (bytes: Buffer) =>
  Buffer.from(crc32(bytes).toString(16).padStart(8, '0'), 'hex').toString('base64');

async function exchange(store: TestStore, head: string, body: Buffer): Promise<string> {
  using connection = await openRaw(store.port);
  connection.send(head);
  connection.send(body);
  return await connection.until(/^HTTP\/1.1 200[^]*\r\n\r\n|<\/Error>/);
}

for (const size of [5, 200_000]) {
  test(`aws-chunked: ${size} bytes in signed chunks, as mc sends them, are stored`, async () => {
    await using store = await startWithBucket();
    const bytes = randomContent(size);
    const request = signed(store, 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD', {
      'x-amz-decoded-content-length': String(size),
    });
    const body = signedChunks(request, [bytes.subarray(0, 3), bytes.subarray(3)]);
    const head = headOf('PUT', path, { ...request.headers, 'content-length': String(body.length) });
    assert.match(await exchange(store, head, body), /^HTTP\/1.1 200/);
    assert.ok(bytes.equals(await content(store)));
  });

  test(`aws-chunked: ${size} bytes in signed chunks with a signed trailer are stored with their checksum`, async () => {
    await using store = await startWithBucket();
    const bytes = randomContent(size);
    const headers = {
      'x-amz-decoded-content-length': String(size),
      'x-amz-trailer': 'x-amz-checksum-crc32',
      'content-encoding': 'aws-chunked',
    };
    const request = signed(store, 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER', headers);
    const checksum = base64Crc32(bytes);
    const body = signedChunks(request, [bytes], `x-amz-checksum-crc32:${checksum}`);
    const head = headOf('PUT', path, { ...request.headers, 'content-length': String(body.length) });
    assert.match(await exchange(store, head, body), /^HTTP\/1.1 200/);
    const object = store.store.statObject({ bucket, key });
    assert.equal(object?.checksum?.value, checksum);
    assert.equal(object?.headers['content-encoding'], undefined);
  });

  test(`aws-chunked: ${size} bytes with a changed chunk are rejected, and nothing is left`, async () => {
    await using store = await startWithBucket();
    const bytes = randomContent(size);
    const request = signed(store, 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD', {
      'x-amz-decoded-content-length': String(size),
    });
    const body = signedChunks(request, [bytes]);
    const at = body.indexOf(bytes);
    body.writeUInt8(body.readUInt8(at) ^ 1, at);
    const head = headOf('PUT', path, { ...request.headers, 'content-length': String(body.length) });
    assert.match(await exchange(store, head, body), /^HTTP\/1.1 403[^]*SignatureDoesNotMatch/);
    assert.equal(store.store.statObject({ bucket, key }), undefined);
    await store.store.close();
    assert.deepEqual(leftovers(store.directory), []);
  });

  test(`aws-chunked: ${size} bytes as boto3 sends them over TLS, unsigned with a trailer inside HTTP's chunks, are stored`, async () => {
    await using store = await startWithBucket();
    const bytes = randomContent(size);
    const { headers } = signed(store, 'STREAMING-UNSIGNED-PAYLOAD-TRAILER', {
      'x-amz-decoded-content-length': String(size),
      'x-amz-trailer': 'x-amz-checksum-crc32',
      'content-encoding': 'aws-chunked',
    });
    const inner = Buffer.concat([
      Buffer.from(`${size.toString(16)}\r\n`),
      bytes,
      Buffer.from(`\r\n0\r\nx-amz-checksum-crc32:${base64Crc32(bytes)}\r\n\r\n`),
    ]);
    using connection = await openRaw(store.port);
    connection.send(headOf('PUT', path, { ...headers, 'transfer-encoding': 'chunked', expect: '100-continue' }));
    await connection.until(/100 Continue/);
    for (const piece of [inner.subarray(0, 4), inner.subarray(4)]) {
      connection.send(Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]));
    }
    connection.send('0\r\n\r\n');
    assert.match(await connection.until(/HTTP\/1.1 [2-5]\d\d[^]*\r\n\r\n/), /HTTP\/1.1 200/);
    assert.ok(bytes.equals(await content(store)));
  });
}

const WRONG = [
  { name: 'another SHA-256', payload: hash('sha256', 'other', 'hex'), headers: {}, code: 'XAmzContentSHA256Mismatch' },
  {
    name: 'another MD5',
    payload: 'UNSIGNED-PAYLOAD',
    headers: { 'content-md5': hash('md5', 'other', 'base64') },
    code: 'BadDigest',
  },
  {
    name: 'an invalid MD5',
    payload: 'UNSIGNED-PAYLOAD',
    headers: { 'content-md5': 'abc' },
    code: 'InvalidDigest',
  },
  {
    name: 'another CRC32',
    payload: 'UNSIGNED-PAYLOAD',
    headers: { 'x-amz-checksum-crc32': base64Crc32(Buffer.from('other')) },
    code: 'BadDigest',
  },
  {
    name: 'an invalid checksum',
    payload: 'UNSIGNED-PAYLOAD',
    headers: { 'x-amz-checksum-sha256': 'AAAA' },
    code: 'InvalidRequest',
  },
];
for (const { name, payload, headers, code } of WRONG) {
  for (const size of [10, 100_000]) {
    test(`digest: ${size} bytes with ${name} than declared are rejected with ${code}, and the old object stays`, async () => {
      await using store = await startWithBucket();
      await store.store.putObject({ bucket, key }, Buffer.from('old'));
      const request = signed(store, payload, headers);
      const head = headOf('PUT', path, { ...request.headers, 'content-length': String(size) });
      assert.match(await exchange(store, head, randomContent(size)), new RegExp(`^HTTP/1.1 400[^]*<Code>${code}<`));
      assert.equal((await content(store)).toString(), 'old');
      await store.store.close();
      assert.deepEqual(leftovers(store.directory), []);
    });
  }
}

test('aws-chunked: a body whose chunks have another length than declared is rejected', async () => {
  await using store = await startWithBucket();
  for (const announced of ['4', '6']) {
    const request = signed(store, 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD', { 'x-amz-decoded-content-length': announced });
    const body = signedChunks(request, [Buffer.from('hello')]);
    const head = headOf('PUT', path, { ...request.headers, 'content-length': String(body.length) });
    assert.match(await exchange(store, head, body), /^HTTP\/1.1 400[^]*IncompleteBody/);
  }
});

test('upload: nothing is left if the connection ends', async () => {
  await using store = await startWithBucket();
  const { headers } = signed(store, 'UNSIGNED-PAYLOAD');
  {
    using connection = await openRaw(store.port);
    connection.send(headOf('PUT', path, { ...headers, 'content-length': '1000000', expect: '100-continue' }));
    await connection.until(/100 Continue/);
    connection.send(randomContent(400_000));
  }
  await store.store.close();
  assert.deepEqual(leftovers(store.directory), []);
  await using again = await startStore({ directory: store.directory });
  assert.equal(again.store.statObject({ bucket, key }), undefined);
});

test('upload: a client that waits for 100 Continue gets 403 before it sends the body, and the connection is closed', async () => {
  await using store = await startWithBucket();
  const { headers } = signed(store, 'UNSIGNED-PAYLOAD');
  using connection = await openRaw(store.port);
  const wrong = { ...headers, authorization: `${headers['authorization']}0` };
  connection.send(headOf('PUT', path, { ...wrong, 'content-length': '1000000000', expect: '100-continue' }));
  const answer = await connection.until(/<\/Error>/);
  assert.match(answer, /^HTTP\/1.1 403 /);
  await connection.closed();
});

test('upload: a client that sends a large body at once still reads why it is rejected', async () => {
  await using store = await startWithBucket();
  const { headers } = signed(store, 'UNSIGNED-PAYLOAD', {}, 'PUT', '/nowhere/a');
  using connection = await openRaw(store.port);
  connection.send(headOf('PUT', '/nowhere/a', { ...headers, 'content-length': '3000000' }));
  connection.send(randomContent(3_000_000));
  assert.match(await connection.until(/<\/Error>/), /^HTTP\/1.1 404[^]*NoSuchBucket/);
  await connection.closed();
});

test('upload: a body without a length is rejected', async () => {
  await using store = await startWithBucket();
  const { headers } = signed(store, 'UNSIGNED-PAYLOAD');
  using connection = await openRaw(store.port);
  connection.send(headOf('PUT', path, { ...headers, 'transfer-encoding': 'chunked' }));
  assert.match(await connection.until(/<\/Error>/), /^HTTP\/1.1 411[^]*MissingContentLength/);
});

test('upload: an object that is too large for one request is rejected before it is sent', async () => {
  await using store = await startWithBucket();
  const { headers } = signed(store, 'UNSIGNED-PAYLOAD');
  using connection = await openRaw(store.port);
  const length = String(5 * 2 ** 30 + 1);
  connection.send(headOf('PUT', path, { ...headers, 'content-length': length, expect: '100-continue' }));
  assert.match(await connection.until(/<\/Error>/), /^HTTP\/1.1 400[^]*EntityTooLarge/);
});

const BOMB = `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "${'a'.repeat(100)}"><!ENTITY b "&a;&a;&a;">]>`;
const DOCUMENTS = [
  { name: 'an XML bomb', text: `${BOMB}<Delete><Object><Key>&b;</Key></Object></Delete>`, code: 'MalformedXML' },
  { name: 'another root element', text: '<Tagging></Tagging>', code: 'MalformedXML' },
  { name: 'no keys', text: '<Delete></Delete>', code: 'MalformedXML' },
  {
    name: 'too many keys',
    text: `<Delete>${'<Object><Key>a</Key></Object>'.repeat(1001)}</Delete>`,
    code: 'MalformedXML',
  },
  { name: 'too many bytes', text: ' '.repeat(5 * 2 ** 20), code: 'MaxMessageLengthExceeded' },
];
for (const { name, text, code } of DOCUMENTS) {
  test(`delete objects: a list with ${name} is rejected with ${code}`, async () => {
    await using store = await startWithBucket();
    const body = Buffer.from(text);
    const at = `/${bucket}?delete`;
    const { headers } = signed(store, hash('sha256', body, 'hex'), {}, 'POST', at);
    const head = headOf('POST', at, { ...headers, 'content-length': String(body.length) });
    assert.match(await exchange(store, head, body), new RegExp(`^HTTP/1.1 400[^]*<Code>${code}<`));
  });
}
