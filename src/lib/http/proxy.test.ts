import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import net, { type AddressInfo, type Server, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { allowedAddresses } from './allowed-address.ts';
import { TEST_CERTIFICATE, TEST_KEY } from './certificate.fixture.ts';
import { HttpClient } from './client.ts';

async function listen(t: TestContext, server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** The API servers of the tests, which only the proxy can resolve. */
async function servers(t: TestContext) {
  const answer: http.RequestListener = (request, response) => response.end(`${request.method} ${request.headers.host}`);
  const plain = await listen(t, http.createServer(answer));
  const secure = await listen(t, https.createServer({ key: TEST_KEY, cert: TEST_CERTIFICATE }, answer));
  return { plain, secure };
}

function pipe(one: Socket, other: Socket): void {
  one.pipe(other).on('error', () => one.destroy());
  other.pipe(one).on('error', () => other.destroy());
}

/** A proxy with `CONNECT` that demands a password. */
async function httpProxy(t: TestContext, asked: string[] = []) {
  const proxy = http.createServer();
  proxy.on('connect', ({ url = '', headers }, socket: Socket) => {
    asked.push(url);
    if (headers['proxy-authorization'] !== `Basic ${btoa('user:pass word')}`) {
      return socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
    }
    const upstream = net.connect(Number(url.split(':').at(-1)), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      pipe(socket, upstream);
    });
    return upstream;
  });
  return listen(t, proxy);
}

/** Reads exactly this many bytes of a handshake. */
async function take(socket: Socket, bytes: number): Promise<Buffer> {
  for (;;) {
    const chunk = socket.read(bytes) as Buffer | null;
    if (chunk) return chunk;
    await once(socket, 'readable');
  }
}

/** A SOCKS 5 proxy; with `user`, it demands that name and the password `secret`. Answers with `reply`. */
async function socksProxy(
  t: TestContext,
  { user, reply = 0 }: { user?: string; reply?: number } = {},
  asked: string[] = [],
) {
  const serve = async (socket: Socket) => {
    const [, count = 0] = await take(socket, 2);
    const method = user === undefined ? 0 : 2;
    const isOffered = [...(await take(socket, count))].includes(method);
    socket.write(Uint8Array.of(5, isOffered ? method : 0xff));
    if (!isOffered) return;
    if (user !== undefined) {
      const sized = async () => (await take(socket, (await take(socket, 1))[0] ?? 0)).toString();
      await take(socket, 1);
      const given = `${await sized()}:${await sized()}`;
      socket.write(Uint8Array.of(1, given === `${user}:secret` ? 0 : 1));
    }
    const [, , , , length = 0] = await take(socket, 5);
    const host = (await take(socket, length)).toString();
    const port = (await take(socket, 2)).readUInt16BE();
    asked.push(`${host}:${port}`);
    // The address of the answer is a name, which has any length.
    const answer = Uint8Array.of(5, reply, 0, 3, 3, 97, 98, 99, 0, 80);
    if (reply !== 0) return void socket.end(answer);
    const upstream = net.connect(port, '127.0.0.1', () => {
      socket.write(answer);
      pipe(socket, upstream);
    });
  };
  return listen(
    t,
    net.createServer((socket) => {
      socket.on('error', () => undefined);
      serve(socket).catch(() => socket.destroy());
    }),
  );
}

function clientThrough(t: TestContext, proxy: string): (url: string) => Promise<string> {
  const client = new HttpClient({ verify: true, ca: TEST_CERTIFICATE, servername: 'localhost', proxy: new URL(proxy) });
  t.after(() => client.close());
  return async (url) => (await client.send({ method: 'GET', url, maxBytes: 1_000 })).body.toString();
}

test('proxy: requests with and without TLS go through CONNECT, and the proxy resolves the name', async (t) => {
  const { plain, secure } = await servers(t);
  const asked: string[] = [];
  const get = clientThrough(t, `http://user:pass%20word@127.0.0.1:${await httpProxy(t, asked)}`);
  assert.equal(await get(`http://api.cluster:${plain}/`), `GET api.cluster:${plain}`);
  assert.equal(await get(`https://api.cluster:${secure}/`), `GET api.cluster:${secure}`);
  assert.deepEqual(asked, [`api.cluster:${plain}`, `api.cluster:${secure}`]);
});

test('proxy: requests go through SOCKS 5, with and without a password', async (t) => {
  const { plain, secure } = await servers(t);
  const asked: string[] = [];
  const get = clientThrough(t, `socks5://127.0.0.1:${await socksProxy(t, {}, asked)}`);
  assert.equal(await get(`http://api.cluster:${plain}/`), `GET api.cluster:${plain}`);
  assert.equal(await get(`https://api.cluster:${secure}/`), `GET api.cluster:${secure}`);
  assert.deepEqual(asked, [`api.cluster:${plain}`, `api.cluster:${secure}`]);
  const authenticated = clientThrough(t, `socks5://joe:secret@127.0.0.1:${await socksProxy(t, { user: 'joe' })}`);
  assert.equal(await authenticated(`https://api.cluster:${secure}/`), `GET api.cluster:${secure}`);
});

test('proxy: a refusal of the proxy is an unreachable server, with the reason', async (t) => {
  const rejected = async (proxy: string, reason: RegExp) =>
    assert.rejects(clientThrough(t, proxy)('https://api.cluster/'), { code: 'unreachable', message: reason });
  await rejected(`http://127.0.0.1:${await httpProxy(t)}`, /the proxy answered 407/);
  await rejected(`socks5://127.0.0.1:${await socksProxy(t, { reply: 2 })}`, /not allowed by its rules/);
  await rejected(`socks5://127.0.0.1:${await socksProxy(t, { user: 'joe' })}`, /another kind of authentication/);
  await rejected(
    `socks5://joe:wrong@127.0.0.1:${await socksProxy(t, { user: 'joe' })}`,
    /rejected the user name or password/,
  );
  await rejected('socks5://127.0.0.1:1', /ECONNREFUSED/);
  await rejected('http://127.0.0.1:1', /ECONNREFUSED/);
});

test('proxy: a proxy that never answers fails after the deadline of the connection', async (t) => {
  const port = await listen(t, net.createServer());
  for (const scheme of ['http', 'socks5']) {
    const client = new HttpClient({
      verify: true,
      proxy: new URL(`${scheme}://127.0.0.1:${port}`),
      connectDeadline: 50,
    });
    t.after(() => client.close());
    const sent = client.send({ method: 'GET', url: 'https://api.cluster/', maxBytes: 1 });
    await assert.rejects(sent, { code: 'unreachable', message: /no tunnel within 0.05 s/ });
  }
});

test('proxy: it cannot be combined with the address guard, which would check nothing', () => {
  const allowed = allowedAddresses([]);
  assert.throws(() => new HttpClient({ verify: true, proxy: new URL('http://proxy.lab'), allowed }), TypeError);
});
