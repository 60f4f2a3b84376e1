import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { type TestContext, test } from 'node:test';
import { allowedAddresses, type Network } from './allowed-address.ts';
import { TEST_CERTIFICATE, TEST_KEY } from './certificate.fixture.ts';
import { toHttpClientError } from './failure.ts';
import { type AgentOptions, createAgents, type Resolver } from './guarded-agent.ts';

type Context = Pick<TestContext, 'after'>;

const only = (address: string): Network => ({ address, prefix: 32, family: 'ipv4' });

function agents(t: Context, options: Partial<AgentOptions>) {
  const made = createAgents({ verify: true, ...options });
  t.after(() => made.close());
  return made;
}

async function listen(t: Context, server: Server): Promise<number> {
  server.listen(0, '0.0.0.0');
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** A server that answers with the address it was dialled at. */
async function echo(t: Context) {
  let connections = 0;
  const server = http.createServer((request, response) => response.end(request.socket.localAddress));
  server.on('connection', () => connections++);
  return { port: await listen(t, server), connections: () => connections };
}

async function get(url: string, options: http.RequestOptions): Promise<{ body: string; reused: boolean }> {
  const request = (url.startsWith('https') ? https : http).get(url, options);
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  return { body: Buffer.concat(await response.toArray()).toString(), reused: request.reusedSocket };
}

const resolver = (...answers: string[][]) => {
  const asked: string[] = [];
  const resolve: Resolver = (host, found) => {
    const answer = answers[Math.min(asked.push(host), answers.length) - 1] ?? [];
    setImmediate(() =>
      found(
        null,
        answer.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
      ),
    );
  };
  return { resolve, asked };
};

test('a name that leads to a forbidden address is refused in words, and nobody is dialled', async (t) => {
  const { port, connections } = await echo(t);
  const { resolve } = resolver(['127.0.0.1']);
  const agent = agents(t, { allowed: allowedAddresses([]), resolve }).http;
  await assert.rejects(get(`http://minio.lab:${port}/`, { agent }), {
    name: 'HttpClientError',
    code: 'address-refused',
    message:
      'the address 127.0.0.1 of "minio.lab" is not one that definitions may name: ask the operator to add its network to OSCAR_PEER_NETWORKS',
  });
  assert.equal(connections(), 0);
});

test('of several addresses of a name only allowed ones are dialled', async (t) => {
  const { port, connections } = await echo(t);
  const { resolve } = resolver(['::1', '127.0.0.1', '127.0.0.2', '127.0.0.3']);
  const agent = agents(t, { allowed: allowedAddresses([only('127.0.0.2')]), resolve }).http;
  assert.equal((await get(`http://many.lab:${port}/`, { agent })).body, '127.0.0.2');
  assert.equal(connections(), 1);
});

test('what was checked is what is dialled, whatever the name means a moment later', async (t) => {
  const { port } = await echo(t);
  const { resolve, asked } = resolver(['127.0.0.2'], ['127.0.0.1']);
  const agent = agents(t, { allowed: allowedAddresses([only('127.0.0.2')]), resolve }).http;
  const far = { agent, headers: { connection: 'close' } };
  assert.equal((await get(`http://rebinding.lab:${port}/`, far)).body, '127.0.0.2');
  assert.deepEqual(asked, ['rebinding.lab']);
  await assert.rejects(get(`http://rebinding.lab:${port}/`, far), { code: 'address-refused' });
});

const spellings = [
  '127.0.0.1',
  '2130706433',
  '0x7f000001',
  '017700000001',
  '0177.0.0.1',
  '127.1',
  '0',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[::1]',
  '[::]',
  'localhost',
];
for (const host of spellings) {
  test(`this machine is refused when it is written as ${host}`, async (t) => {
    const { port, connections } = await echo(t);
    const agent = agents(t, { allowed: allowedAddresses([]) }).http;
    await assert.rejects(get(`http://${host}:${port}/`, { agent }), { code: 'address-refused' });
    // As it stands, without the parser of URLs that makes an address of it.
    const raw = get(`http://x:${port}/`, { agent, hostname: host.replace(/[[\]]/g, '') });
    await assert.rejects(raw, { code: 'address-refused' });
    assert.equal(connections(), 0);
  });
}

test('a public address is dialled over https only, and the sentence says so', async (t) => {
  const agent = agents(t, { allowed: allowedAddresses([]), resolve: resolver(['1.1.1.1']).resolve }).http;
  await assert.rejects(get('http://public.lab/', { agent }), {
    code: 'address-refused',
    message:
      'the address 1.1.1.1 of "public.lab" is one that definitions may name over https only: write the endpoint with https://',
  });
});

test('https is refused like http', async (t) => {
  const agent = agents(t, { allowed: allowedAddresses([]) }).https;
  await assert.rejects(get('https://127.0.0.1/', { agent }), { code: 'address-refused' });
});

test('a refused request does not harm the ones after it', async (t) => {
  const { port } = await echo(t);
  const agent = agents(t, { allowed: allowedAddresses([only('127.0.0.2')]) }).http;
  await assert.rejects(get(`http://127.0.0.1:${port}/`, { agent }), { code: 'address-refused' });
  assert.equal((await get(`http://127.0.0.2:${port}/`, { agent })).body, '127.0.0.2');
});

test('a connection is used again without another look at the name', async (t) => {
  const { port, connections } = await echo(t);
  const { resolve, asked } = resolver(['127.0.0.1']);
  const agent = agents(t, { allowed: allowedAddresses([only('127.0.0.1')]), resolve }).http;
  assert.equal((await get(`http://pooled.lab:${port}/`, { agent })).reused, false);
  assert.equal((await get(`http://pooled.lab:${port}/`, { agent })).reused, true);
  assert.deepEqual([connections(), asked.length], [1, 1]);
});

test('without a rule every address may be dialled', async (t) => {
  const { port } = await echo(t);
  assert.equal((await get(`http://127.0.0.1:${port}/`, { agent: agents(t, {}).http })).body, '127.0.0.1');
});

test('a host that never finishes the handshake is given up', async (t) => {
  const port = await listen(
    t,
    createServer((socket) => t.after(() => socket.destroy())),
  );
  const agent = agents(t, { connectDeadline: 50 }).https;
  await assert.rejects(get(`https://127.0.0.1:${port}/`, { agent }), {
    code: 'unreachable',
    message: '"127.0.0.1" cannot be reached: no connection within 0.05 s',
  });
});

test('a connection that stands is not cut by the deadline for connecting', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const server = http.createServer((_request, response) => {
    t.mock.timers.tick(3_600_000);
    response.end('late');
  });
  const port = await listen(t, server);
  assert.equal((await get(`http://127.0.0.1:${port}/`, { agent: agents(t, {}).http })).body, 'late');
});

test('a certificate that nobody vouches for is told from a host that is not there, and can be let pass', async (t) => {
  const server = https.createServer({ key: TEST_KEY, cert: TEST_CERTIFICATE }, (_request, response) =>
    response.end('hello'),
  );
  const port = await listen(t, server);
  const strict = await get(`https://127.0.0.1:${port}/`, { agent: agents(t, {}).https }).catch((error) => error);
  assert.equal(toHttpClientError(strict, 'far.lab')?.code, 'untrusted');
  const agent = agents(t, { verify: false }).https;
  assert.equal((await get(`https://127.0.0.1:${port}/`, { agent })).body, 'hello');
});

test('a certificate holds for those who were given its authority, and under its own name alone', async (t) => {
  const server = https.createServer({ key: TEST_KEY, cert: TEST_CERTIFICATE }, (_request, response) =>
    response.end('hello'),
  );
  const port = await listen(t, server);
  const { resolve } = resolver(['127.0.0.1']);
  const agent = agents(t, { ca: TEST_CERTIFICATE, resolve }).https;
  assert.equal((await get(`https://127.0.0.1:${port}/`, { agent })).body, 'hello');
  const other = await get(`https://other.lab:${port}/`, { agent }).catch((error) => error);
  assert.equal(toHttpClientError(other, 'other.lab')?.code, 'untrusted');
});

test('beyond so many connections requests wait for one, and all are answered', async (t) => {
  const waiting: http.ServerResponse[] = [];
  const { promise: full, resolve: isFull } = Promise.withResolvers<void>();
  let connections = 0;
  const server = http.createServer((_request, response) => {
    if (waiting.push(response) === 2) isFull();
  });
  server.on('connection', () => connections++);
  const port = await listen(t, server);
  const agent = agents(t, { mostConnections: 2 }).http;
  const answers = Promise.all(Array.from({ length: 6 }, () => get(`http://127.0.0.1:${port}/`, { agent })));
  await full;
  server.on('request', () => waiting.shift()?.end('late'));
  for (const response of waiting.splice(0)) response.end('first');
  assert.deepEqual((await answers).map(({ body }) => body).toSorted(), [
    'first',
    'first',
    'late',
    'late',
    'late',
    'late',
  ]);
  assert.equal(connections, 2);
});

test('a port without anybody is said to have nobody', async (t) => {
  const { resolve } = resolver(['127.0.0.1', '::1']);
  const agent = agents(t, { resolve }).http;
  const failure = await get('http://empty.lab:1/', { agent }).catch((error) => error);
  const { code, message } = toHttpClientError(failure, 'empty.lab') ?? {};
  assert.deepEqual([code, message], ['unreachable', '"empty.lab" cannot be reached: nothing listens there']);
});

test('a name without an address is unreachable', async (t) => {
  const agent = agents(t, { resolve: resolver([]).resolve }).http;
  await assert.rejects(get('http://nothing.lab/', { agent }), { code: 'unreachable' });
  assert.equal(toHttpClientError(new Error('some answer'), 'nothing.lab'), undefined);
});
