import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type ConnectOptions, createAgents, type Resolver } from './address-guard.ts';
import { allowedAddresses, type Network } from './allowed-address.ts';
import { TEST_CERTIFICATE, TEST_KEY } from './certificate.fixture.ts';
import { HttpClient } from './client.ts';
import { type HttpClientError, toHttpClientError } from './errors.ts';

type Context = Pick<TestContext, 'after'>;

const only = (address: string): Network => ({ address, prefix: 32, family: 'ipv4' });

async function listen(t: Context, server: Server): Promise<number> {
  server.listen(0, '0.0.0.0');
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** A server that answers with the address at which it received the request. */
async function echo(t: Context) {
  let connections = 0;
  const server = http.createServer((request, response) => response.end(request.socket.localAddress));
  server.on('connection', () => connections++);
  return { port: await listen(t, server), connections: () => connections };
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

type Get = (url: string, headers?: Readonly<Record<string, string>>) => Promise<string>;

async function getThrough(agent: http.Agent, url: string, options: https.RequestOptions): Promise<string> {
  const request = (url.startsWith('https') ? https : http).get(url, { ...options, agent });
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  return Buffer.concat(await response.toArray()).toString();
}

function agents(t: Context, options: Partial<ConnectOptions>) {
  const made = createAgents({ verify: true, ...options });
  t.after(() => made.close());
  return made;
}

/** The two kinds of guarded connections: agents for the AWS SDK, and the connect hook of the HTTP client. */
const KINDS: Readonly<Record<string, (t: Context, options: Partial<ConnectOptions>) => Get>> = {
  agents(t, options) {
    const made = agents(t, options);
    return (url, headers = {}) => getThrough(url.startsWith('https') ? made.https : made.http, url, { headers });
  },
  client(t, options) {
    const client = new HttpClient({ verify: true, ...options });
    t.after(() => client.close());
    return async (url, headers = {}) =>
      (await client.send({ method: 'GET', url, headers, maxBytes: 1_000 })).body.toString();
  },
};

const SPELLINGS = [
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

for (const [kind, connect] of Object.entries(KINDS)) {
  test(`guard (${kind}): a name with a forbidden address is refused without a connection`, async (t) => {
    const { port, connections } = await echo(t);
    const { resolve } = resolver(['127.0.0.1']);
    const get = connect(t, { allowed: allowedAddresses([]), resolve });
    await assert.rejects(get(`http://minio.lab:${port}/`), {
      name: 'HttpClientError',
      code: 'address-refused',
      message:
        '"minio.lab" has no address that definitions may name: check the name, or ask the operator to add its network to OSCAR_PEER_NETWORKS',
    });
    assert.equal(connections(), 0);
  });

  test(`guard (${kind}): a name that does not exist gets the answer of a name with a forbidden address`, async (t) => {
    const nowhere: NonNullable<ConnectOptions['resolve']> = (_host, found) =>
      found(Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' }), []);
    const answers = [nowhere, resolver([]).resolve, resolver(['10.1.2.3']).resolve].map(async (resolve) => {
      const get = connect(t, { allowed: allowedAddresses([]), resolve });
      const { code, message } = (await get('https://internal.lab/').catch(
        (error: unknown) => error,
      )) as HttpClientError;
      assert.equal(code, 'address-refused');
      return message;
    });
    const messages = new Set(await Promise.all(answers));
    assert.equal(messages.size, 1, [...messages].join(' | '));
    assert.doesNotMatch([...messages].join(), /10\.1\.2\.3/);
  });

  test(`guard (${kind}): only the allowed addresses of a name are connected to`, async (t) => {
    const { port, connections } = await echo(t);
    const { resolve } = resolver(['::1', '127.0.0.1', '127.0.0.2', '127.0.0.3']);
    const get = connect(t, { allowed: allowedAddresses([only('127.0.0.2')]), resolve });
    assert.equal(await get(`http://many.lab:${port}/`), '127.0.0.2');
    assert.equal(connections(), 1);
  });

  test(`guard (${kind}): the checked address is used, and each connection is checked anew`, async (t) => {
    const { port } = await echo(t);
    const { resolve, asked } = resolver(['127.0.0.2'], ['127.0.0.1']);
    const get = connect(t, { allowed: allowedAddresses([only('127.0.0.2')]), resolve });
    const close = { connection: 'close' };
    assert.equal(await get(`http://rebinding.lab:${port}/`, close), '127.0.0.2');
    assert.deepEqual(asked, ['rebinding.lab']);
    await assert.rejects(get(`http://rebinding.lab:${port}/`, close), { code: 'address-refused' });
  });

  for (const host of SPELLINGS) {
    test(`guard (${kind}): this machine is refused when it is written as ${host}`, async (t) => {
      const { port, connections } = await echo(t);
      const get = connect(t, { allowed: allowedAddresses([]) });
      await assert.rejects(get(`http://${host}:${port}/`), { code: 'address-refused' });
      assert.equal(connections(), 0);
    });
  }

  test(`guard (${kind}): a public address is allowed over https only, and the message says so`, async (t) => {
    const get = connect(t, { allowed: allowedAddresses([]), resolve: resolver(['1.1.1.1']).resolve });
    await assert.rejects(get('http://public.lab/'), {
      code: 'address-refused',
      message: '"public.lab" is one that definitions may name over https only: write the endpoint with https://',
    });
  });

  test(`guard (${kind}): https is refused like http`, async (t) => {
    const get = connect(t, { allowed: allowedAddresses([]) });
    await assert.rejects(get('https://127.0.0.1/'), { code: 'address-refused' });
  });

  test(`guard (${kind}): requests after a refused request succeed`, async (t) => {
    const { port } = await echo(t);
    const get = connect(t, { allowed: allowedAddresses([only('127.0.0.2')]) });
    await assert.rejects(get(`http://127.0.0.1:${port}/`), { code: 'address-refused' });
    assert.equal(await get(`http://127.0.0.2:${port}/`), '127.0.0.2');
  });

  test(`guard (${kind}): a pooled connection is used again without another lookup`, async (t) => {
    const { port, connections } = await echo(t);
    const { resolve, asked } = resolver(['127.0.0.1']);
    const get = connect(t, { allowed: allowedAddresses([only('127.0.0.1')]), resolve });
    await get(`http://pooled.lab:${port}/`);
    await get(`http://pooled.lab:${port}/`);
    assert.deepEqual([connections(), asked.length], [1, 1]);
  });

  test(`guard (${kind}): without a rule every address is allowed`, async (t) => {
    const { port } = await echo(t);
    assert.equal(await connect(t, {})(`http://127.0.0.1:${port}/`), '127.0.0.1');
  });

  test(`connect (${kind}): a TLS handshake that never finishes fails after the deadline`, async (t) => {
    const port = await listen(
      t,
      createServer((socket) => t.after(() => socket.destroy())),
    );
    const get = connect(t, { connectDeadline: 50 });
    await assert.rejects(get(`https://127.0.0.1:${port}/`), {
      code: 'unreachable',
      message: '"127.0.0.1" cannot be reached: no connection within 0.05 s',
    });
  });

  test(`connect (${kind}): an invalid certificate is not an unreachable host, and can be accepted`, async (t) => {
    const server = https.createServer({ key: TEST_KEY, cert: TEST_CERTIFICATE }, (_request, response) =>
      response.end('hello'),
    );
    const url = `https://127.0.0.1:${await listen(t, server)}/`;
    const strict = await connect(t, {})(url).catch((error) => error);
    assert.equal(toHttpClientError(strict, 'far.lab')?.code, 'untrusted');
    assert.equal(await connect(t, { verify: false })(url), 'hello');
  });

  test(`connect (${kind}): a certificate is valid with its own authority, and for its own name only`, async (t) => {
    const server = https.createServer({ key: TEST_KEY, cert: TEST_CERTIFICATE }, (_request, response) =>
      response.end('hello'),
    );
    const port = await listen(t, server);
    const get = connect(t, { ca: TEST_CERTIFICATE, resolve: resolver(['127.0.0.1']).resolve });
    assert.equal(await get(`https://127.0.0.1:${port}/`), 'hello');
    const other = await get(`https://other.lab:${port}/`).catch((error) => error);
    assert.equal(toHttpClientError(other, 'other.lab')?.code, 'untrusted');
  });

  test(`connect (${kind}): a closed port is reported as such`, async (t) => {
    const get = connect(t, { resolve: resolver(['127.0.0.1', '::1']).resolve });
    const failure = await get('http://empty.lab:1/').catch((error) => error);
    const { code, message } = toHttpClientError(failure, 'empty.lab') ?? {};
    assert.deepEqual([code, message], ['unreachable', '"empty.lab" cannot be reached: nothing listens there']);
  });

  test(`connect (${kind}): a name without an address is unreachable`, async (t) => {
    await assert.rejects(connect(t, { resolve: resolver([]).resolve })('http://nothing.lab/'), { code: 'unreachable' });
  });
}

for (const host of SPELLINGS) {
  test(`guard (agents): this machine is refused as the host name ${host}, without the parser of URLs`, async (t) => {
    const { port, connections } = await echo(t);
    const agent = agents(t, { allowed: allowedAddresses([]) }).http;
    const raw = getThrough(agent, `http://x:${port}/`, { hostname: host.replace(/[[\]]/g, '') });
    await assert.rejects(raw, { code: 'address-refused' });
    assert.equal(connections(), 0);
  });
}

test('connect (agents): the deadline for connecting does not cut an established connection', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const server = http.createServer((_request, response) => {
    t.mock.timers.tick(3_600_000);
    response.end('late');
  });
  const port = await listen(t, server);
  assert.equal(await getThrough(agents(t, {}).http, `http://127.0.0.1:${port}/`, {}), 'late');
});

test('errors: an error that is not about the connection is not classified', () => {
  assert.equal(toHttpClientError(new Error('some answer'), 'nothing.lab'), undefined);
});
