import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { openRaw } from './raw-exchange.ts';
import { type RequestToSign, sign } from './signed-request.ts';
import { ANA, startStore, type TestStore } from './start-store.ts';

/** Raw header lines, with repeated names, and the values that a client signs. */
interface Lines {
  readonly name: string;
  readonly lines: readonly string[];
  readonly signed: string;
}

const bucket = 'photos';
const key = 'in/a';
const path = `/${bucket}/${key}`;

async function startWithObject() {
  const store = await startStore();
  await store.store.createBucket({ name: bucket, owner: ANA.accessKey });
  await store.store.putObject({ bucket, key }, Buffer.from('old'));
  return { ...store, [Symbol.asyncDispose]: () => store[Symbol.asyncDispose]() };
}

async function send(store: TestStore, requestLine: string, lines: readonly string[], body: string): Promise<string> {
  using connection = await openRaw(store.port);
  const head = [requestLine, ...lines, `content-length: ${body.length}`, '', ''].join('\r\n');
  connection.send(Buffer.from(head, 'latin1'));
  connection.send(body);
  return await connection.until(/^HTTP\/1.1 2\d\d[^]*\r\n\r\n|<\/Error>/);
}

/** Sends a PUT that the test signs itself. */
function put(store: TestStore, { name, lines, signed }: Lines, request: Partial<RequestToSign> = {}) {
  const host = new URL(store.endpoint).host;
  const { headers } = sign({
    method: 'PUT',
    path,
    host,
    keys: ANA,
    payload: 'UNSIGNED-PAYLOAD',
    headers: { [name]: signed },
    ...request,
  });
  const others = Object.entries(headers).filter(([each]) => each !== name);
  const all = [...others.map(([each, value]) => `${each}: ${value}`), ...lines];
  return send(store, `PUT ${path} HTTP/1.1`, all, 'hello');
}

const REPEATED: readonly (Lines & { readonly kept: string })[] = [
  {
    name: 'x-amz-meta-a',
    lines: ['x-amz-meta-a: one', 'x-amz-meta-a: two'],
    signed: 'one,two',
    kept: 'one,two',
  },
  {
    name: 'x-amz-meta-a',
    lines: ['X-Amz-Meta-A:   two   words\t ', 'x-amz-meta-a:one'],
    signed: 'two words,one',
    kept: 'two   words,one',
  },
  {
    name: 'content-type',
    lines: ['content-type: text/plain', 'content-type: text/html'],
    signed: 'text/plain,text/html',
    kept: 'text/plain,text/html',
  },
];
for (const { kept, ...lines } of REPEATED) {
  test(`signature: the lines ${JSON.stringify(lines.lines)} are verified as "${lines.signed}"`, async () => {
    await using store = await startWithObject();
    assert.match(await put(store, lines), /^HTTP\/1.1 200/);
    const object = store.store.statObject({ bucket, key });
    assert.equal(lines.name === 'content-type' ? object?.contentType : object?.headers[lines.name], kept);
  });
}

test('signature: a line added to a signed header is rejected, and the object stays', async () => {
  await using store = await startWithObject();
  for (const name of ['x-amz-meta-a', 'content-type']) {
    const added = { name, lines: [`${name}: one`, `${name}: two`], signed: 'one' };
    assert.match(await put(store, added), /^HTTP\/1.1 403[^]*SignatureDoesNotMatch/);
  }
  assert.equal(store.store.statObject({ bucket, key })?.size, 3);
});

test('signature: a value that ends in the UTF-8 letter "à" is signed with all its bytes', async () => {
  await using store = await startWithObject();
  const value = Buffer.from('voilà').toString('latin1');
  const name = 'x-amz-meta-a';
  const host = new URL(store.endpoint).host;
  const request = { method: 'PUT', path, host, keys: ANA, payload: 'UNSIGNED-PAYLOAD' };
  const { headers } = sign({ ...request, headers: { [name]: 'voilà' } });
  const lines = Object.entries({ ...headers, [name]: value }).map(([each, text]) => `${each}: ${text}`);
  assert.match(await send(store, `PUT ${path} HTTP/1.1`, lines, 'hello'), /^HTTP\/1.1 200/);
  assert.equal(store.store.statObject({ bucket, key })?.headers[name], value);
});

test('signature: version 2 signs the lines of a repeated header the same way', async () => {
  await using store = await startWithObject();
  const expires = Math.floor(Date.now() / 1000) + 60;
  const text = `PUT\n\n\n${expires}\nx-amz-meta-a:one,two\n${path}`;
  const signature = createHmac('sha1', ANA.secret.reveal()).update(text).digest('base64');
  const query = new URLSearchParams({ AWSAccessKeyId: ANA.accessKey, Signature: signature, Expires: String(expires) });
  const lines = ['host: store', 'x-amz-meta-a: one', 'x-amz-meta-a: two'];
  assert.match(await send(store, `PUT ${path}?${query.toString()} HTTP/1.1`, lines, 'hello'), /^HTTP\/1.1 200/);
  assert.equal(store.store.statObject({ bucket, key })?.headers['x-amz-meta-a'], 'one,two');
});
