import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { TEST_CERTIFICATE, TEST_KEY } from '../../lib/http/certificate.fixture.ts';
import type { Resolver } from '../../lib/http/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import type { PeerAddress } from '../peer.ts';
import { type PeerRequest, Transport, type TransportOptions } from './transport.ts';

type Context = Pick<TestContext, 'after'>;

const ASK: PeerRequest = { method: 'GET', path: '/x', headers: {}, deadline: 5_000, repeatable: true };
const LOOPBACK = { address: '127.0.0.1', prefix: 32, family: 'ipv4' } as const;

async function listen(t: Context, server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

function transportTo(t: Context, endpoint: string, more: Partial<PeerAddress & TransportOptions> = {}): Transport {
  const address = { clusterId: 'b', endpoint, verify: true, guarded: false, kind: 'oscar', ...more } as const;
  const { networks = [], resolve } = more;
  const transport = new Transport(address, { networks, ...(resolve && { resolve }) });
  t.after(() => transport.close());
  return transport;
}

const unreachable = (message: string | RegExp) => ({ name: 'PeerError', code: 'unreachable', message });
const nobody = (endpoint: string) =>
  unreachable(`cluster "b": no OSCAR manager answers there (${endpoint}): check the endpoint`);

const slow: [string, http.RequestListener][] = [
  ['that never answers', () => undefined],
  ['that never ends its answer', (_request, response) => void response.writeHead(200).write('{')],
  [
    'that answers letter by letter',
    (_request, response) => {
      const timer = setInterval(() => response.write(' '), 5);
      response.on('close', () => clearInterval(timer));
    },
  ],
];
for (const [what, handler] of slow) {
  test(`transport: a server ${what} is given up`, async (t) => {
    const port = await listen(t, http.createServer(handler));
    const transport = transportTo(t, `http://127.0.0.1:${port}`);
    const late = unreachable('cluster "b": "127.0.0.1" cannot be reached: no answer in time');
    await assert.rejects(transport.send({ ...ASK, deadline: 60 }), late);
    assert.equal(transport.isBusy, false);
  });
}

test('transport: a closed connection is reported as such', async (t) => {
  const port = await listen(
    t,
    createServer((socket) => socket.once('data', () => socket.resetAndDestroy())),
  );
  const cut = unreachable('cluster "b": "127.0.0.1" cannot be reached: the connection was cut');
  await assert.rejects(transportTo(t, `http://127.0.0.1:${port}`).send(ASK), cut);
});

test('an answer that is cut in the middle is no answer', async (t) => {
  const port = await listen(
    t,
    http.createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 });
      response.write('{}', () => response.destroy());
    }),
  );
  await assert.rejects(transportTo(t, `http://127.0.0.1:${port}`).send(ASK), unreachable(/the connection was cut/));
});

test('transport: a refused connection is reported as such', async (t) => {
  await assert.rejects(transportTo(t, 'http://127.0.0.1:1').send(ASK), unreachable(/nothing listens there/));
});

test('transport: an answer that is not HTTP is rejected, and its text is not shown', async (t) => {
  const port = await listen(
    t,
    createServer((socket) => socket.once('data', () => socket.end('220 mail.example ESMTP\r\n'))),
  );
  const endpoint = `http://127.0.0.1:${port}`;
  await assert.rejects(transportTo(t, endpoint).send(ASK), (error: Error) => {
    assert.equal(error.message, nobody(endpoint).message);
    assert.equal(error.cause, undefined);
    return true;
  });
});

test('of an answer without end so much is read and no more', async (t) => {
  let written = 0;
  const { promise: closed, resolve: isClosed } = Promise.withResolvers<void>();
  const port = await listen(
    t,
    http.createServer((_request, response) => {
      response.on('close', isClosed).on('error', () => undefined);
      response.writeHead(200, { 'content-type': 'application/json' });
      const write = () => {
        written += 65_536;
        if (written > 10_000_000) response.end();
        else response.write(' '.repeat(65_536), (error) => error ?? write());
      };
      write();
    }),
  );
  const endpoint = `http://127.0.0.1:${port}`;
  await assert.rejects(transportTo(t, endpoint).send(ASK), nobody(endpoint));
  await closed;
  assert.ok(written < 10_000_000, 'all of it was read');
});

const bodies: [string, string, string, unknown][] = [
  ['JSON that says so', 'application/json; charset=utf-8', '{"a":1}', { a: 1 }],
  ['JSON under another name', 'text/html', '{"a":1}', undefined],
  ['a page', 'text/html', '<html>', undefined],
  ['a page under the name of JSON', 'application/json', '<html>', undefined],
  ['JSON nested without end', 'application/json', '['.repeat(100_000), undefined],
];
for (const [what, type, body, json] of bodies) {
  test(`${what} is read as ${JSON.stringify(json) ?? 'nothing'}`, async (t) => {
    const server = http.createServer((_request, response) =>
      response.writeHead(200, { 'content-type': type, date: 'Tue, 14 Nov 2023 22:13:20 GMT' }).end(body),
    );
    const answer = await transportTo(t, `http://127.0.0.1:${await listen(t, server)}`).send(ASK);
    assert.deepEqual(answer, { status: 200, json, isEmpty: false, date: 1_700_000_000_000, worker: undefined });
  });
}

test('a path of the endpoint comes before that of the request, and its end does not matter', async (t) => {
  const server = http.createServer((request, response) =>
    response.setHeader('content-type', 'application/json').end(JSON.stringify([request.method, request.url])),
  );
  const port = await listen(t, server);
  for (const end of ['', '/']) {
    const transport = transportTo(t, `http://127.0.0.1:${port}/oscar${end}`);
    const { json } = await transport.send({ ...ASK, method: 'DELETE', query: 'how=undo' });
    assert.deepEqual(json, ['DELETE', '/oscar/x?how=undo']);
  }
});

test('a slow manager is not asked by more than 32 at once, and all get their answer', async (t) => {
  let connections = 0;
  const waiting: http.ServerResponse[] = [];
  const server = http.createServer((_request, response) => waiting.push(response));
  server.on('connection', () => connections++);
  const transport = transportTo(t, `http://127.0.0.1:${await listen(t, server)}`);
  const answers = Promise.all(Array.from({ length: 50 }, () => transport.send(ASK)));
  await eventually(() => assert.equal(waiting.length, 32));
  server.on('request', () => waiting.shift()?.end());
  for (const response of waiting.splice(0)) response.end();
  assert.equal((await answers).length, 50);
  assert.equal(connections, 32);
});

/** Closes a connection of the pool when the second request comes, as servers do whose patience is over. */
async function impatient(t: Context) {
  const asked = new WeakSet<Socket>();
  let requests = 0;
  const server = http.createServer((request, response) => {
    requests++;
    if (asked.has(request.socket)) request.socket.resetAndDestroy();
    else response.end();
    asked.add(request.socket);
  });
  return { transport: transportTo(t, `http://127.0.0.1:${await listen(t, server)}`), requests: () => requests };
}

test('a connection that was closed in the pool is not the end of a request that may come twice', async (t) => {
  const { transport, requests } = await impatient(t);
  await transport.send(ASK);
  assert.equal((await transport.send(ASK)).status, 200);
  assert.equal(requests(), 3);
});

test('what is signed is signed anew when it is sent again', async (t) => {
  const { transport, requests } = await impatient(t);
  await transport.send(ASK);
  let signed = 0;
  await transport.send({ ...ASK, headers: () => ({ 'x-oscar-member': String(++signed) }) });
  assert.deepEqual([requests(), signed], [3, 2]);
});

test('what must not come twice is not sent twice', async (t) => {
  const { transport, requests } = await impatient(t);
  await transport.send(ASK);
  await assert.rejects(transport.send({ ...ASK, repeatable: false }), unreachable(/the connection was cut/));
  assert.equal(requests(), 2);
});

test('a certificate must hold, for a private authority too, unless the cluster says otherwise', async (t) => {
  const server = https.createServer({ key: TEST_KEY, cert: TEST_CERTIFICATE }, (_request, response) => response.end());
  const endpoint = `https://127.0.0.1:${await listen(t, server)}`;
  const refused = unreachable(/^cluster "b" at https:[^ ]+: its certificate is not valid: set its CA certificate/);
  await assert.rejects(transportTo(t, endpoint).send(ASK), refused);
  assert.equal((await transportTo(t, endpoint, { ca: TEST_CERTIFICATE }).send(ASK)).status, 200);
  assert.equal((await transportTo(t, endpoint, { verify: false }).send(ASK)).status, 200);
  const elsewhere = { ca: TEST_CERTIFICATE, resolve: leadsTo('127.0.0.1') };
  await assert.rejects(transportTo(t, endpoint.replace('127.0.0.1', 'other.lab'), elsewhere).send(ASK), refused);
});

/** Names that lead to one address after the other. */
function leadsTo(...addresses: string[]): Resolver {
  return (_host, found) => {
    const address = (addresses.length > 1 ? addresses.shift() : addresses[0]) ?? '';
    setImmediate(() => found(null, [{ address, family: address.includes(':') ? 6 : 4 }]));
  };
}

async function counting(t: Context) {
  let requests = 0;
  const server = http.createServer((_request, response) => {
    requests++;
    response.setHeader('connection', 'close').end();
  });
  return { port: await listen(t, server), requests: () => requests };
}

const forbidden: [string, string, Resolver | undefined][] = [
  ['a name of this machine', 'localhost', undefined],
  ['a name that leads to it', 'b.lab', leadsTo('127.0.0.1')],
  ['a name that leads to it in the IPv6 way', 'b.lab', leadsTo('::ffff:127.0.0.1')],
  ['its address in the IPv6 way', '[::ffff:127.0.0.1]', undefined],
  ['the metadata service', '169.254.169.254', undefined],
];
for (const [what, host, resolve] of forbidden) {
  test(`where users may point, ${what} is not dialled`, async (t) => {
    const { port, requests } = await counting(t);
    const transport = transportTo(t, `http://${host}:${port}`, { guarded: true, ...(resolve && { resolve }) });
    await assert.rejects(transport.send(ASK), unreachable(/OSCAR_PEER_NETWORKS/));
    assert.equal(requests(), 0);
  });
}

test('guard: a name that resolves to another address later is refused, without that address in the message', async (t) => {
  const { port, requests } = await counting(t);
  const resolve = leadsTo('127.0.0.1', '127.0.0.2');
  const transport = transportTo(t, `http://b.lab:${port}`, { guarded: true, networks: [LOOPBACK], resolve });
  assert.equal((await transport.send(ASK)).status, 200);
  await assert.rejects(
    transport.send(ASK),
    unreachable(/^(?!.*127\.0\.0\.2).*"b\.lab" has no address that definitions may name/),
  );
  assert.equal(requests(), 1);
});

test('where the operator points, any address is dialled', async (t) => {
  const { port } = await counting(t);
  assert.equal((await transportTo(t, `http://127.0.0.1:${port}`).send(ASK)).status, 200);
});

const LISTEN = { path: '/x', headers: {}, deadline: 5_000, idle: 5_000 };

async function streaming(t: Context, handler: http.RequestListener) {
  return transportTo(t, `http://127.0.0.1:${await listen(t, http.createServer(handler))}`);
}

async function textOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  return Buffer.concat(await Array.fromAsync(chunks)).toString();
}

test('an answer that is read as it comes may be longer than any other', async (t) => {
  const transport = await streaming(t, (_request, response) => response.end('x'.repeat(3_000_000)));
  const { status, chunks } = await transport.stream(LISTEN);
  assert.equal(status, 200);
  assert.equal((await textOf(chunks)).length, 3_000_000);
  assert.equal(transport.isBusy, false);
});

test('what has come is read before there is more', async (t) => {
  const { promise: more, resolve: goOn } = Promise.withResolvers<void>();
  const transport = await streaming(t, (_request, response) => {
    response.write('first');
    void more.then(() => response.end('last'));
  });
  const { chunks } = await transport.stream(LISTEN);
  const reading = chunks[Symbol.asyncIterator]();
  assert.equal(Buffer.from((await reading.next()).value ?? '').toString(), 'first');
  assert.equal(transport.isBusy, true);
  goOn();
  assert.equal(Buffer.from((await reading.next()).value ?? '').toString(), 'last');
});

test('who falls silent in the middle is given up, who only reads slowly is not', async (t) => {
  const transport = await streaming(t, (_request, response) => void response.write('first'));
  const { chunks } = await transport.stream({ ...LISTEN, idle: 60 });
  await assert.rejects(textOf(chunks), unreachable(/no answer in time/));
  const { promise: more, resolve: goOn } = Promise.withResolvers<void>();
  const prompt = await streaming(t, (_request, response) => {
    response.write('first');
    void more.then(() => response.end('last'));
  });
  const read = [];
  for await (const chunk of (await prompt.stream({ ...LISTEN, idle: 500 })).chunks) {
    await pause(700);
    goOn();
    read.push(Buffer.from(chunk).toString());
  }
  assert.equal(read.join(''), 'firstlast');
});

test('a stream that never begins is given up, and one that is cut is no whole one', async (t) => {
  const never = await streaming(t, () => undefined);
  await assert.rejects(never.stream({ ...LISTEN, deadline: 60 }), unreachable(/no answer in time/));
  assert.equal(never.isBusy, false);
  const cut = await streaming(t, (_request, response) => void response.write('first', () => response.destroy()));
  await assert.rejects(textOf((await cut.stream(LISTEN)).chunks), unreachable(/the connection was cut/));
});

test('who stops reading is not told of an error, and the other side notices', async (t) => {
  const { promise: closed, resolve: isClosed } = Promise.withResolvers<void>();
  const transport = await streaming(t, (_request, response) => {
    response.on('close', isClosed).write('first');
  });
  const leaving = new AbortController();
  const { chunks } = await transport.stream({ ...LISTEN, signal: leaving.signal });
  const read = textOf(chunks);
  leaving.abort();
  await read;
  await closed;
  await eventually(() => assert.equal(transport.isBusy, false));
  assert.equal(await textOf((await transport.stream({ ...LISTEN, signal: leaving.signal })).chunks), '');
});

test('of a stream that is refused nothing is read', async (t) => {
  const transport = await streaming(t, (_request, response) => response.writeHead(404).end('<html>'));
  const { status, chunks } = await transport.stream(LISTEN);
  assert.equal(status, 404);
  assert.equal(await textOf(chunks), '');
  await eventually(() => assert.equal(transport.isBusy, false));
});

test('transport: long log streams do not delay other requests', async (t) => {
  const transport = await streaming(t, (request, response) => {
    if (request.url === '/log') response.write('first');
    else response.end();
  });
  await Promise.all(Array.from({ length: 40 }, () => transport.stream({ ...LISTEN, path: '/log' })));
  assert.equal((await transport.send(ASK)).status, 200);
});
