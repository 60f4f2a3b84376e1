import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { createServer as createSecure } from 'node:https';
import { createServer as createPlain, type Server as PlainServer } from 'node:net';
import { after, test } from 'node:test';
import { TEST_CERTIFICATE, TEST_KEY } from '../../lib/http/certificate.fixture.ts';
import { ClientError } from './errors.ts';
import { bodyBytes, send } from './http.ts';

const servers: PlainServer[] = [];
after(() => {
  for (const server of servers) server.close();
});

async function portOf(server: PlainServer | Server): Promise<number> {
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return typeof address === 'object' && address ? address.port : 0;
}

const unreachable = (says: RegExp) => (error: unknown) =>
  error instanceof ClientError && error.code === 'unreachable' && says.test(error.message);

test('CLI client: an untrusted certificate is rejected, or accepted if the profile says so', async () => {
  const server = createSecure({ key: TEST_KEY, cert: TEST_CERTIFICATE }, (_request, response) => response.end('hello'));
  const url = `https://127.0.0.1:${await portOf(server)}/`;
  const refused = unreachable(/certificate.*NODE_EXTRA_CA_CERTS.*ssl_verify: false/s);
  await assert.rejects(send({ method: 'GET', url, verify: true }), refused);
  const answer = await send({ method: 'GET', url, verify: false });
  assert.equal((await bodyBytes(answer, url)).toString(), 'hello');
});

test('https where http is spoken is said, and what to do about it', async () => {
  const port = await portOf(createServer((_request, response) => response.end()));
  const sent = send({ method: 'GET', url: `https://127.0.0.1:${port}/`, verify: true });
  await assert.rejects(sent, unreachable(/Perhaps it is http/));
});

test('something that is no HTTP is said', async () => {
  const port = await portOf(createPlain((socket) => socket.end('220 mail.example.org ready\r\n')));
  const sent = send({ method: 'GET', url: `http://127.0.0.1:${port}/`, verify: true });
  await assert.rejects(sent, unreachable(/does not speak HTTP/));
});

test('CLI client: a refused connection is reported with the address', async () => {
  const server = createServer();
  const port = await portOf(server);
  server.close();
  await once(server, 'close');
  const sent = send({ method: 'GET', url: `http://127.0.0.1:${port}/`, verify: true });
  await assert.rejects(
    sent,
    unreachable(new RegExp(`nothing listens there.*manager at http://127.0.0.1:${port} running`)),
  );
});

test('a server that says nothing is given up', async () => {
  const port = await portOf(createServer(() => undefined));
  const sent = send({ method: 'GET', url: `http://127.0.0.1:${port}/`, verify: true, patienceMs: 50 });
  await assert.rejects(sent, unreachable(/no answer in time/));
});

test('a DELETE takes its body along: without its length a server would see none, and do more than was asked', async () => {
  const server = createServer((request, response) => void request.pipe(response));
  const url = `http://127.0.0.1:${await portOf(server)}/`;
  const answer = await send({ method: 'DELETE', url, verify: true, body: '{"replicas":["ü"]}' });
  assert.equal((await bodyBytes(answer, url)).toString(), '{"replicas":["ü"]}');
});
