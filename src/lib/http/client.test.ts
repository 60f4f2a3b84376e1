import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import http from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { HttpClient, type HttpClientOptions, type HttpRequest } from './client.ts';

async function listen(t: Pick<TestContext, 'after'>, server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function clientFor(t: Pick<TestContext, 'after'>, options: Partial<HttpClientOptions> = {}): HttpClient {
  const client = new HttpClient({ verify: true, ...options });
  t.after(() => client.close());
  return client;
}

const GET = { method: 'GET', maxBytes: 1_000 };
const timedOut = { code: 'timed-out', message: '"127.0.0.1" cannot be reached: no answer in time' };

test('send: status, headers and body are returned, repeated headers joined', async (t) => {
  const url = await listen(
    t,
    http.createServer((request, response) => {
      response.writeHead(404, ['X-Seen', `${request.method} ${request.url}`, 'Vary', 'a', 'Vary', 'b']);
      response.end('no');
    }),
  );
  const { status, headers, body } = await clientFor(t).send({ ...GET, url: `${url}/x?y=1` });
  assert.deepEqual([status, headers['x-seen'], headers['vary'], body.toString()], [404, 'GET /x?y=1', 'a, b', 'no']);
});

test('send: redirects are not followed', async (t) => {
  const url = await listen(
    t,
    http.createServer((_request, response) => response.writeHead(302, { location: '/y' }).end()),
  );
  assert.equal((await clientFor(t).send({ ...GET, url })).status, 302);
});

test('send: the name and password of a URL become basic authorization', async (t) => {
  const url = await listen(
    t,
    http.createServer(({ headers }, response) => response.end(headers.authorization)),
  );
  const { body } = await clientFor(t).send({ ...GET, url: url.replace('//', '//a:b%3Ac@') });
  assert.equal(body.toString(), `Basic ${btoa('a:b:c')}`);
});

test('send: a body longer than the limit fails, and the connection is closed', async (t) => {
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  const url = await listen(
    t,
    http.createServer((_request, response) => {
      response.on('close', resolve).write('x'.repeat(2_000));
    }),
  );
  await assert.rejects(clientFor(t).send({ ...GET, url }), { code: 'too-large' });
  await closed;
});

test('open: a character whose bytes arrive in two chunks is decoded unchanged', async (t) => {
  const answering = Promise.withResolvers<http.ServerResponse>();
  const url = await listen(
    t,
    http.createServer((_request, response) => {
      response.flushHeaders();
      answering.resolve(response);
    }),
  );
  const { body } = await clientFor(t).open({ method: 'GET', url });
  const parts: string[] = [];
  const ended = once(body, 'end');
  body.setEncoding('utf8').on('data', (part: string) => parts.push(part));
  const cow = Buffer.from('🐄');
  const response = await answering.promise;
  response.write(cow.subarray(0, 1));
  response.end(cow.subarray(1));
  await ended;
  assert.equal(parts.join(''), '🐄');
});

test('send: the deadline covers head and body', async (t) => {
  const silent = await listen(
    t,
    http.createServer(() => undefined),
  );
  const unfinished = await listen(
    t,
    http.createServer((_request, response) => void response.write('x')),
  );
  await assert.rejects(clientFor(t).send({ ...GET, url: silent, deadline: 40 }), timedOut);
  await assert.rejects(clientFor(t).send({ ...GET, url: unfinished, deadline: 40 }), timedOut);
});

test('send: the deadline and the signal also end a request that waits for a connection', async (t) => {
  const url = await listen(
    t,
    http.createServer(() => undefined),
  );
  const client = clientFor(t, { maxConnections: 1 });
  const first = assert.rejects(client.send({ ...GET, url }), { code: 'unreachable' });
  await assert.rejects(client.send({ ...GET, url, deadline: 40 }), timedOut);
  const abort = new AbortController();
  const waiting = assert.rejects(client.send({ ...GET, url, signal: abort.signal }), { code: 'aborted' });
  abort.abort();
  await waiting;
  client.close();
  await first;
});

test('send: beyond the limit of connections requests wait, and all are answered', async (t) => {
  const waiting: http.ServerResponse[] = [];
  const { promise: full, resolve: isFull } = Promise.withResolvers<void>();
  let connections = 0;
  const server = http.createServer((_request, response) => {
    if (waiting.push(response) === 2) isFull();
  });
  server.on('connection', () => connections++);
  const url = await listen(t, server);
  const client = clientFor(t, { maxConnections: 2 });
  const answers = Promise.all(Array.from({ length: 6 }, () => client.send({ ...GET, url })));
  await full;
  server.on('request', () => waiting.shift()?.end('late'));
  for (const response of waiting.splice(0)) response.end('first');
  assert.deepEqual((await answers).map(({ body }) => body.toString()).toSorted(), [
    'first',
    'first',
    'late',
    'late',
    'late',
    'late',
  ]);
  assert.equal(connections, 2);
});

/** Counts the connections for two requests, one after the other. */
async function connectionsForTwo(t: TestContext, options: Partial<HttpClientOptions>, request: Partial<HttpRequest>) {
  let connections = 0;
  const server = http.createServer((received, response) => received.resume().on('end', () => response.end()));
  server.on('connection', () => connections++);
  const url = await listen(t, server);
  const client = clientFor(t, options);
  for (let sent = 0; sent < 2; sent++) await client.send({ ...GET, url, ...request });
  return connections;
}

for (const request of [{ method: 'HEAD' }, { method: 'DELETE', body: 'x' }, { method: 'PUT', body: 'x' }]) {
  test(`keep-alive: the connection of a ${request.method} is used again`, async (t) => {
    assert.equal(await connectionsForTwo(t, {}, request), 1);
  });
}

test('keep-alive: with 0 each request has a connection of its own', async (t) => {
  assert.equal(await connectionsForTwo(t, { keepAlive: 0 }, {}), 2);
});

test('send: an answer that is not HTTP is reported as such', async (t) => {
  const url = await listen(
    t,
    createServer((socket) => socket.once('data', () => socket.end('220 mail.example ESMTP\r\n'))),
  );
  await assert.rejects(clientFor(t).send({ ...GET, url }), { code: 'not-http' });
});

/** Resets a connection when its second request arrives. */
async function impatientServer(t: TestContext) {
  const asked = new WeakSet<Socket>();
  let requests = 0;
  const url = await listen(
    t,
    http.createServer((request, response) => {
      requests++;
      if (asked.has(request.socket)) request.socket.resetAndDestroy();
      else response.end();
      asked.add(request.socket);
    }),
  );
  return { url, requests: () => requests };
}

test('resend: a repeatable request is sent again, with new headers, when its pooled connection was closed', async (t) => {
  const { url, requests } = await impatientServer(t);
  const client = clientFor(t);
  await client.send({ ...GET, url });
  let made = 0;
  const headers = () => ({ 'x-made': String(++made) });
  assert.equal((await client.send({ ...GET, url, headers, repeatable: true })).status, 200);
  assert.deepEqual([requests(), made], [3, 2]);
});

test('resend: other requests are sent once, and so are requests on a new connection', async (t) => {
  const { url, requests } = await impatientServer(t);
  const client = clientFor(t);
  await client.send({ ...GET, url });
  await assert.rejects(client.send({ ...GET, url }), { code: 'unreachable', systemCode: 'ECONNRESET' });
  assert.equal(requests(), 2);
  let resets = 0;
  const never = await listen(
    t,
    createServer((socket) => {
      resets++;
      socket.once('data', () => socket.resetAndDestroy());
    }),
  );
  await assert.rejects(client.send({ ...GET, url: never, repeatable: true }), { code: 'unreachable' });
  assert.equal(resets, 1);
});

test('open: bodies are streamed in both directions', async (t) => {
  const url = await listen(
    t,
    http.createServer((request, response) => void request.pipe(response)),
  );
  const body = Readable.from([Buffer.from('a'), Buffer.from('b')]);
  const headers = { 'content-length': '2' };
  const answer = await clientFor(t).open({ method: 'PUT', url, body, headers, deadline: 5_000 });
  assert.equal(await text(answer.body), 'ab');
});

test('open: an answer that comes before the whole body was sent counts', async (t) => {
  const url = await listen(
    t,
    http.createServer((_request, response) => response.writeHead(413).end()),
  );
  const body = new Readable({ read: () => undefined });
  body.push('x');
  const closed = once(body, 'close');
  const answer = await clientFor(t).open({ method: 'PUT', url, body });
  assert.equal(answer.status, 413);
  answer.body.resume();
  await closed;
});

test('open: the idle time ends a silent body, not one that the caller reads slowly', async (t) => {
  const url = await listen(
    t,
    http.createServer((_request, response) => void response.write('x')),
  );
  const { body } = await clientFor(t).open({ method: 'GET', url, idle: 40 });
  await assert.rejects(text(body), { code: 'UND_ERR_BODY_TIMEOUT' });
});

test('open: the signal ends the body', async (t) => {
  const url = await listen(
    t,
    http.createServer((_request, response) => void response.write('x')),
  );
  const abort = new AbortController();
  const { body } = await clientFor(t).open({ method: 'GET', url, signal: abort.signal, deadline: 5_000 });
  const read = assert.rejects(text(body));
  abort.abort();
  await read;
});

test('open: the caller learns when the request has a connection', async (t) => {
  let sent = 0;
  const onSent = () => sent++;
  const url = await listen(
    t,
    http.createServer((request) => request.socket.destroy()),
  );
  const client = clientFor(t);
  await assert.rejects(client.open({ ...GET, url: 'http://127.0.0.1:1/', onSent }), { systemCode: 'ECONNREFUSED' });
  assert.equal(sent, 0);
  await assert.rejects(client.open({ ...GET, url, onSent }), { code: 'unreachable' });
  assert.equal(sent, 1);
});

test('connect: a unix socket is used if one is given', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'oscar-http-'));
  t.after(() => rm(directory, { recursive: true }));
  const socketPath = join(directory, 's');
  const server = http.createServer(({ headers }, response) => response.end(headers.host));
  server.listen(socketPath);
  await once(server, 'listening');
  t.after(() => server.close());
  const { body } = await clientFor(t, { socketPath }).send({ ...GET, url: 'http://docker/x' });
  assert.equal(body.toString(), 'docker');
  const missing = clientFor(t, { socketPath: join(directory, 'none') });
  await assert.rejects(missing.send({ ...GET, url: 'http://docker/x' }), { systemCode: 'ENOENT' });
});
