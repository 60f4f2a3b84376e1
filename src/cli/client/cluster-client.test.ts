import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { ClusterClient } from './cluster-client.ts';

/** A manager that has too much to do for so many requests, and then answers. */
async function busyFor(t: TestContext, times: number, headers: Record<string, string> = { 'retry-after': '0' }) {
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      bodies.push(Buffer.concat(chunks).toString());
      if (bodies.length <= times) response.writeHead(503, headers).end('busy');
      else response.writeHead(200).end('done');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => new Promise((resolve) => server.close(resolve)));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const entry = { endpoint, ssl_verify: true } as ConstructorParameters<typeof ClusterClient>[1];
  const authorization = async () => new Secret('Bearer x');
  return { client: new ClusterClient('a', entry, { kind: 'bearer', authorization }), bodies };
}

test('retry: a 503 with Retry-After is retried with the same body', async (t) => {
  const { client, bodies } = await busyFor(t, 2);
  assert.equal((await client.call('POST', '/x', { body: { a: 1 } })).text, 'done');
  assert.deepEqual(bodies, ['{"a":1}', '{"a":1}', '{"a":1}']);
});

test('retry: the number of attempts is limited', async (t) => {
  const { client, bodies } = await busyFor(t, 99);
  await assert.rejects(client.call('GET', '/x'), /busy\. Try again in a moment/);
  assert.equal(bodies.length, 4);
});

test('retry: a 503 without Retry-After is not retried', async (t) => {
  const { client, bodies } = await busyFor(t, 1, {});
  await assert.rejects(client.call('GET', '/x'), /busy/);
  assert.equal(bodies.length, 1);
});

test('retry: a stream is not sent twice', async (t) => {
  const { client, bodies } = await busyFor(t, 1);
  await assert.rejects(client.call('POST', '/x', { raw: Readable.from(['part']) }), /busy/);
  assert.equal(bodies.length, 1);
});
