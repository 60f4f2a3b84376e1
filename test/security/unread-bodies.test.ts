import assert from 'node:assert/strict';
import diagnostics from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';

/** A route of the manager, as it was registered: the table is the manager's own, so that no new route is left out. */
interface Route {
  readonly method: string;
  readonly url: string;
  /** For requests of other managers only; under the same path there is another route for people. */
  readonly signed: boolean;
}

const routes: Route[] = [];
function collect(message: unknown): void {
  const { fastify } = message as { readonly fastify: FastifyInstance };
  fastify.addHook('onRoute', ({ method, url, constraints }) => {
    for (const each of [method].flat()) routes.push({ method: each, url, signed: 'signed' in (constraints ?? {}) });
  });
}

let manager: TestManager;
before(async () => {
  diagnostics.subscribe('fastify.initialization', collect);
  manager = await startTestManager();
  diagnostics.unsubscribe('fastify.initialization', collect);
});
after(() => manager[Symbol.asyncDispose]());

const WITHOUT_BODY = ['GET', 'HEAD', 'OPTIONS'];
const TWO_MIB = 2 * 1024 * 1024;

/** Of a federation that nobody knows. */
const FORGED = `x-oscar-member: 6f1c2a4e-0000-4000-8000-000000000001;b/demo;${Date.now()};${'n'.repeat(22)};${'0'.repeat(64)}\r\n`;

const strangers: [string, string][] = [
  ['no credentials', ''],
  ['a wrong password', `authorization: Basic ${Buffer.from('oscar:wrong').toString('base64')}\r\n`],
  ['a token of nobody', 'authorization: Bearer a.b.c\r\n'],
  ['a service token of nobody', `authorization: Bearer ${'0'.repeat(64)}\r\n`],
];

describe('unread bodies', () => {
  test('the table has all routes with a body', () => {
    const taking = routes.filter(({ method }) => !WITHOUT_BODY.includes(method)).map(({ url }) => url);
    const known = ['/system/services', '/system/buckets/:name/presign', '/system/federation/:name/jobs', '/job/:name'];
    for (const url of known) assert.ok(taking.includes(url), url);
    assert.ok(routes.some(({ signed }) => signed));
  });

  for (const [name, credentials] of strangers) {
    test(`every route rejects ${name} without reading the body`, async () => {
      const asked = routes.filter(({ method }) => !WITHOUT_BODY.includes(method));
      assert.ok(asked.length > 20);
      await Promise.all(
        asked.map(async ({ method, url, signed }) => {
          const socket = open();
          const answered = head(socket);
          const headers = `${credentials}${signed ? FORGED : ''}`;
          socket.write(`${method} ${pathOf(url)} HTTP/1.1\r\nhost: x\r\n${headers}content-length: ${TWO_MIB}\r\n\r\n`);
          // Between managers a federation, or a worker, that is not there is said not to be there.
          // Many wrong passwords of one address get 429, before the password is looked at.
          const expected = signed ? /^HTTP\/1\.1 (401|404|410|429) / : /^HTTP\/1\.1 (401|429) /;
          assert.match(await answered, expected, `${method} ${url}`);
          socket.destroy();
        }),
      );
    });
  }

  test('a connection is closed if the body of a rejected request does not arrive', async () => {
    const socket = open();
    const answered = head(socket);
    const ended = once(socket, 'close');
    socket.write(`POST /system/services HTTP/1.1\r\nhost: x\r\ncontent-length: ${TWO_MIB}\r\n\r\n`);
    assert.match(await answered, /^HTTP\/1\.1 401 /);
    await ended;
  });

  test('an unknown path and a redirect are answered without reading the body', async () => {
    for (const [path, expected] of [
      ['/nope', /^HTTP\/1\.1 404 .*404 page not found$/s],
      ['/system/services/', /^HTTP\/1\.1 307 .*location: \/system\/services\r\n/is],
    ] as const) {
      const socket = open();
      const answered = head(socket);
      socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${TWO_MIB}\r\n\r\n`);
      assert.match(await answered, expected);
      socket.destroy();
    }
  });

  test('100-continue is sent after the caller is authenticated, and not before', async () => {
    const body = JSON.stringify({ name: 'asked', image: 'ubuntu', script: 'echo' });
    const asking = (credentials: string) =>
      `POST /system/services HTTP/1.1\r\nhost: x\r\n${credentials}expect: 100-continue\r\ncontent-length: ${body.length}\r\n\r\n`;
    const stranger = open();
    const refused = head(stranger);
    stranger.write(asking(''));
    assert.match(await refused, /^HTTP\/1\.1 401 /);
    stranger.destroy();

    const known = open();
    const invited = head(known);
    known.write(asking(`authorization: ${ADMIN}\r\n`));
    assert.match(await invited, /^HTTP\/1\.1 100 Continue\r\n\r\n$/);
    const made = head(known);
    known.write(body);
    assert.match(await made, /^HTTP\/1\.1 201 /);
    known.destroy();
  });

  test('a client that sends its whole body sees the answer and keeps its connection', async () => {
    const socket = open();
    for (let round = 1; round <= 2; round++) {
      const answered = head(socket);
      socket.write(`POST /system/services HTTP/1.1\r\nhost: x\r\ncontent-length: ${TWO_MIB}\r\n\r\n`);
      socket.write(Buffer.alloc(TWO_MIB, 'x'));
      assert.match(await answered, /^HTTP\/1\.1 401 /, `round ${round}`);
    }
    socket.destroy();
  });
});

const pathOf = (url: string) => url.replace(':epoch', '1').replaceAll(/:[^/]+/g, 'demo');

function open(): Socket {
  const { hostname, port } = new URL(manager.url);
  return connect({ host: hostname, port: Number(port), allowHalfOpen: true }).setEncoding('utf8');
}

/** What comes next, once it holds the whole head of an answer. */
function head(socket: Socket): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = '';
    const listen = (chunk: string) => {
      received += chunk;
      if (!received.includes('\r\n\r\n')) return;
      socket.off('data', listen);
      resolve(received);
    };
    socket.on('data', listen).on('error', reject);
    socket.on('end', () => {
      socket.end();
      reject(new Error(`ended after "${received}"`));
    });
  });
}
