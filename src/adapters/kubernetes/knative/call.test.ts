import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import { CallLost, sendCall } from './call.ts';

const TOKEN = new Secret('very-own');
const NDJSON = { 'content-type': 'application/x-ndjson' };
const { signal } = new AbortController();

async function serving(t: TestContext, answer: RequestListener): Promise<URL> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  t.after(() => server.close().closeAllConnections());
  await once(server, 'listening');
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

for (const status of [404, 429, 500, 502, 503, 504]) {
  test(`Knative call: ${status} comes from a proxy, so nothing was started`, async (t) => {
    const url = await serving(t, (_, response) => response.writeHead(status).end('no healthy upstream'));
    const reply = await sendCall(url, TOKEN, '{}', signal, signal);
    assert.ok('notYet' in reply && /no healthy upstream/.test(reply.notYet), JSON.stringify(reply));
  });
}

for (const status of [400, 401, 413]) {
  test(`Knative call: ${status} is not retried`, async (t) => {
    const url = await serving(t, (_, response) => response.writeHead(status).end('why'));
    const reply = await sendCall(url, TOKEN, '{}', signal, signal);
    assert.ok('refused' in reply && reply.status === status);
  });
}

test('Knative call: a page of a proxy is not an answer', async (t) => {
  const url = await serving(t, (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('hello'));
  assert.ok('notYet' in (await sendCall(url, TOKEN, '{}', signal, signal)));
});

test('Knative call: a refused connection means that nothing was started', async (t) => {
  const url = await serving(t, () => undefined);
  const gone = createServer().listen(0, '127.0.0.1');
  await once(gone, 'listening');
  url.port = String((gone.address() as AddressInfo).port);
  gone.close();
  await once(gone, 'close');
  assert.ok('notYet' in (await sendCall(url, TOKEN, '{}', signal, signal)));
});

test('Knative call: a call that Knative queues for too long was not started', async (t) => {
  const late = new AbortController();
  const url = await serving(t, () => late.abort());
  const reply = await sendCall(url, TOKEN, '{}', signal, late.signal);
  assert.ok('notYet' in reply && /too long/.test(reply.notYet));
});

test('Knative call: a connection that breaks after the request was sent loses the call', async (t) => {
  const url = await serving(t, (request) => request.socket.destroy());
  await assert.rejects(sendCall(url, TOKEN, '{}', signal, signal), CallLost);
});

test('Knative call: frames arrive as they were sent', async (t) => {
  const url = await serving(t, (_, response) => {
    response.writeHead(200, NDJSON).write('{"pod":"a"}\n\n{"start');
    setImmediate(() => response.end('edAt":5}\nnonsense\n{"uploading":true}\n'));
  });
  const reply = await sendCall(url, TOKEN, '{}', signal, signal);
  assert.ok('frames' in reply);
  assert.deepEqual(await Array.fromAsync(reply.frames), [{ pod: 'a' }, { startedAt: 5 }, { uploading: true }]);
});

test('Knative call: an impostor of the program learns neither the call nor the token', async (t) => {
  let seen = '';
  const url = await serving(t, (request, response) => {
    seen += JSON.stringify(request.rawHeaders);
    request.setEncoding('latin1').on('data', (text: string) => (seen += text));
    request.on('end', () => response.writeHead(503).end());
  });
  await sendCall(url, TOKEN, '{"stores":"s3cret"}', signal, signal);
  assert.notEqual(seen, '');
  assert.doesNotMatch(seen, /s3cret|stores|very-own/);
});

for (const [what, status, type] of [
  ['an answer', 200, 'application/x-ndjson'],
  ['an excuse', 503, 'text/plain'],
] as const) {
  test(`Knative call: ${what} without an end is not kept in memory`, async (t) => {
    const sent = { bytes: 0 };
    const url = await serving(t, (_, response) => {
      response.writeHead(status, { 'content-type': type });
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(65_536))) sent.bytes += 65_536;
      };
      response.on('drain', more);
      more();
    });
    const reply = await sendCall(url, TOKEN, '{}', signal, signal);
    if ('frames' in reply) await assert.rejects(Array.fromAsync(reply.frames), CallLost);
    else assert.ok('notYet' in reply);
    assert.ok(sent.bytes < 64 * 2 ** 20, `${sent.bytes}`);
  });
}

test('Knative call: an answer that breaks off loses the call', async (t) => {
  const url = await serving(t, (_, response) => {
    response.writeHead(200, NDJSON).write('{"pod":"a"}\n');
    setImmediate(() => response.destroy());
  });
  const reply = await sendCall(url, TOKEN, '{}', signal, signal);
  assert.ok('frames' in reply);
  await assert.rejects(Array.fromAsync(reply.frames), CallLost);
});
