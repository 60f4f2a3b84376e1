import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { pino } from 'pino';
import { NAME, type Order, openScene, order } from '../../federation/worker/workers.fixture.ts';
import { createAuthenticator } from '../../identity/index.ts';
import { Secret } from '../../lib/secret.ts';
import { HttpPeer } from '../../peers/client/http-peer.ts';
import { PeerConnection } from '../../peers/connection/peer-connection.ts';
import { Transport } from '../../peers/connection/transport.ts';
import { sign, writeContentDigest } from '../../peers/index.ts';
import { writeOrder } from '../../peers/messages/federation.ts';
import { describePeer } from '../../peers/peer.conformance.ts';
import { createService, updateService } from '../../services/index.ts';
import { admin, alice, bob, body } from '../../services/services.fixture.ts';
import { acceptAnyBody } from '../body.ts';
import { answerError } from '../errors.ts';
import { logRequests } from '../server.ts';
import { peerRoutes } from './peer.ts';

/** A manager with nothing but what its peers need. */
async function openManager() {
  const scene = openScene();
  scene.clock.now = Date.now();
  const lines: string[] = [];
  const log: FastifyBaseLogger = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  const authenticator = createAuthenticator({
    admin: { username: 'admin', password: new Secret('password') },
    oidc: {
      async verify(token) {
        if (token === 'token-of-alice') return alice;
        if (token === 'token-of-bob') return bob;
        throw Object.assign(new Error('unknown'), { statusCode: 401 });
      },
    },
  });
  const app: FastifyInstance = Fastify({
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
  });
  acceptAnyBody(app);
  app.setErrorHandler(answerError);
  logRequests(app);
  const deps = { authenticator, workers: scene.workers };
  peerRoutes(app, deps);
  // Stand-ins for the routes of users.
  app.post('/system/services', async (_request, reply) => reply.code(299).send());
  app.put('/system/services', async (_request, reply) => reply.code(299).send());
  const endpoint = await app.listen({ host: '127.0.0.1', port: 0 });
  const close = async () => {
    await app.close();
    await scene[Symbol.asyncDispose]();
  };
  return { scene, endpoint, lines, close, [Symbol.asyncDispose]: close };
}

type Manager = Awaited<ReturnType<typeof openManager>>;
const ALICE = { authorization: 'Bearer token-of-alice' };
const PATH = `/system/services/${NAME}/federation`;

function send({ endpoint }: Manager, method: string, path: string, headers: Record<string, string>, text?: string) {
  return fetch(`${endpoint}${path}`, { method, headers, ...(text !== undefined && { body: text }) });
}

function sendSigned(manager: Manager, method: string, made: Order, { query = '', text = '', brings = false } = {}) {
  const stamp = { time: Date.now(), nonce: 'nonce-of-the-test' };
  const headers = {
    'x-oscar-member': sign({ method, path: PATH, query, body: text }, made, stamp),
    'content-digest': writeContentDigest(text),
    ...(brings && { 'x-oscar-federation': writeOrder(made) }),
  };
  return send(manager, method, `${PATH}${query && `?${query}`}`, headers, text || undefined);
}

const create = (manager: Manager, made: Order) =>
  send(manager, 'POST', '/system/services', { ...ALICE, 'x-oscar-federation': writeOrder(made) }, made.body.reveal());

describePeer('a manager over HTTP', async () => {
  const manager = await openManager();
  const { catalog } = manager.scene;
  const clusterId = 'b';
  const address = { clusterId, endpoint: manager.endpoint, verify: true, guarded: false, kind: 'oscar' } as const;
  const transport = new Transport(address, { networks: [] });
  return {
    peer: new HttpPeer(address, new PeerConnection(address, transport)),
    owner: { kind: 'bearer', token: new Secret('token-of-alice') },
    stranger: { kind: 'bearer', token: new Secret('token-of-bob') },
    nobody: { kind: 'basic', username: 'nobody', password: new Secret('password') },
    body: (name, text) => JSON.stringify(body({ name, script: `echo ${text}` })),
    make: async (name) => void (await createService(alice, body({ name }), catalog)),
    change: async (name) => void (await updateService(admin, body({ name, cpu: '1' }), undefined, catalog)),
    look: async (name) => (await catalog.services.get(name))?.service,
    async close() {
      transport.close();
      await manager.close();
    },
  };
});

describe('what peers are answered', () => {
  test('a probe is 200 also where there is nothing: a 404 would be another server', async () => {
    await using manager = await openManager();
    const answer = await send(manager, 'GET', PATH, ALICE);
    assert.equal(answer.status, 200);
    assert.deepEqual(await answer.json(), { instance: 'this-cluster', found: 'nothing' });
    assert.equal((await send(manager, 'GET', PATH, {})).status, 401);
  });

  test('a request without the header is an ordinary one', async () => {
    await using manager = await openManager();
    const answer = await send(manager, 'POST', '/system/services', ALICE, JSON.stringify(body()));
    assert.equal(answer.status, 299);
  });

  test('a worker is made, inspected, changed and ended', async () => {
    await using manager = await openManager();
    const made = order();
    assert.equal((await create(manager, made)).status, 201);
    const state = await sendSigned(manager, 'GET', made);
    assert.deepEqual(await state.json(), {
      instance: 'this-cluster',
      found: 'worker',
      revision: 1,
      digest: made.digest,
    });
    const text = `{"revision":2,"digest":"${'c'.repeat(64)}","definition":${made.body.reveal()}}`;
    assert.equal((await sendSigned(manager, 'PUT', made, { text })).status, 204);
    const older = `{"revision":1,"digest":"${'d'.repeat(64)}","definition":${made.body.reveal()}}`;
    assert.equal((await sendSigned(manager, 'PUT', made, { text: older })).status, 409);
    assert.equal((await sendSigned(manager, 'DELETE', made, { query: 'how=undo', brings: true })).status, 204);
    assert.equal((await sendSigned(manager, 'DELETE', made, { query: 'how=undo', brings: true })).status, 204);
    assert.equal((await sendSigned(manager, 'GET', made)).status, 410);
    assert.equal((await create(manager, made)).status, 410);
  });

  test('nothing of this federation is an empty 404, a wrong signature a 401', async () => {
    await using manager = await openManager();
    const made = order();
    const none = await sendSigned(manager, 'GET', made);
    assert.deepEqual([none.status, await none.text()], [404, '']);
    await create(manager, made);
    assert.equal((await sendSigned(manager, 'GET', { ...order(), uid: made.uid })).status, 401);
    assert.equal((await create(manager, order())).status, 409);
  });

  const bad: [string, (manager: Manager) => Promise<Response>][] = [
    [
      'an order that is junk',
      (manager) => send(manager, 'POST', '/system/services', { ...ALICE, 'x-oscar-federation': 'junk' }, '{}'),
    ],
    [
      'an adoption of no version',
      (manager) =>
        send(manager, 'PUT', '/system/services', { ...ALICE, 'x-oscar-federation': writeOrder(order()) }, '{}'),
    ],
    [
      'an end of no known kind',
      (manager) => sendSigned(manager, 'DELETE', order(), { query: 'how=burn', brings: true }),
    ],
    [
      'a change that is none',
      async (manager) => {
        const made = order();
        await create(manager, made);
        return sendSigned(manager, 'PUT', made, { text: '{"revision":"x"}' });
      },
    ],
  ];
  for (const [name, ask] of bad) {
    test(`${name} is a 400 that says why`, async () => {
      await using manager = await openManager();
      const answer = await ask(manager);
      assert.equal(answer.status, 400);
      assert.match(await answer.text(), /\w/);
    });
  }

  test('no key is ever logged', async () => {
    await using manager = await openManager();
    const made = order();
    await create(manager, made);
    await create(manager, order());
    await sendSigned(manager, 'DELETE', made, { query: 'how=undo', brings: true });
    await send(manager, 'POST', '/system/services', { ...ALICE, 'x-oscar-federation': 'junk' }, '{}');
    const log = manager.lines.join('');
    assert.ok(log.includes('"status":201'));
    for (const secret of [made.key.reveal(), writeOrder(made), 'worker-password']) assert.ok(!log.includes(secret));
  });
});
