import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';
import { after, before, suite, test } from 'node:test';
import { type Issuer, startIssuer } from '../support/issuer.ts';
import { ALICE } from '../support/issuer-users.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';

/**
 * What the acceptance suite of the Go manager does with federations, with our own requests: one cluster is
 * its own peer under two ids, the members exist already, and the refresh token is none.
 */
suite('the acceptance suite for federations', () => {
  let issuer: Issuer;
  let manager: TestManager;
  let front: Front;
  let alice: string;

  before(async () => {
    issuer = await startIssuer({ users: [ALICE] });
    const oidc = { OIDC_ENABLE: 'true', OIDC_ISSUERS: issuer.url, OIDC_GROUPS: '/oscar' };
    manager = await startTestManager({ ...oidc, OSCAR_PEER_NETWORKS: '127.0.0.0/8' });
    front = await startFront(manager.url);
    alice = `Bearer ${(await issuer.tokensFor(ALICE)).accessToken}`;
  });
  after(async () => {
    await front[Symbol.asyncDispose]();
    await manager[Symbol.asyncDispose]();
    await issuer[Symbol.asyncDispose]();
  });

  const ways: { who: string; way: () => Way }[] = [
    { who: 'a user', way: () => ({ as: alice, endpoint: manager.url, state: 'ready' }) },
    { who: 'the administrator', way: () => ({ as: ADMIN, endpoint: manager.url, state: 'ready' }) },
    { who: 'a user, through an ingress', way: () => ({ as: alice, endpoint: front.url, state: 'ready' }) },
    // The manager cannot know that this is itself, and its password is for nobody else (F30).
    { who: 'the administrator, through an ingress', way: () => ({ as: ADMIN, endpoint: front.url, state: 'pending' }) },
  ];

  for (const [index, { who, way }] of ways.entries()) {
    for (const topology of ['star', 'mesh']) {
      test(`is passed with a ${topology} by ${who}`, () => pass(topology, `${topology}-${index}`, way()));
    }
  }

  async function pass(topology: string, prefix: string, { as, endpoint, state }: Way): Promise<void> {
    const plain = { image: 'ubuntu', script: '#!/bin/sh\necho hi\n', cluster_id: 'oscar-primary' };
    const [name, w1, w2] = [`${prefix}-origin`, `${prefix}-w1`, `${prefix}-w2`];
    const shown = async (method: string, body?: unknown) => {
      const answer = await manager.call(method, `/system/federation/${name}`, { as, body });
      assert.equal(answer.status, 200, answer.text);
      return answer.json() as Shown;
    };
    const create = async (definition: object) => {
      const answer = await manager.call('POST', '/system/services', { as, body: { ...plain, ...definition } });
      assert.equal(answer.status, 201, answer.text);
    };

    await create({ name: w1 });
    await create({ name: w2 });
    const { text } = await manager.call('GET', `/system/federation/${w1}`, { as });
    assert.equal(text, '{"topology":"none","members":null}');

    const environment = { secrets: { refresh_token: 'dummy-token' } };
    await create({ name, environment, federation: { topology, delegation: 'random', members: [] } });
    assert.deepEqual(await shown('GET'), { topology, members: null });

    const [jetson, graspi] = [memberOf('oscar-jetson', w1), memberOf('oscar-graspi', w2)];
    const clusters = Object.fromEntries(
      ['oscar-jetson', 'oscar-graspi'].map((id) => [id, { endpoint, ssl_verify: false }]),
    );
    await shown('POST', { members: [jetson, { ...graspi, priority: 1 }], clusters });
    assert.deepEqual(prioritiesIn(await shown('GET')), { [w1]: 0, [w2]: 1 });
    const detailed = await manager.call('GET', `/system/federation/${name}?include=status`, { as });
    assert.deepEqual(statesIn(detailed.json() as Shown), [state, state], detailed.text);

    await shown('PUT', { members: [jetson], update: [{ ...jetson, priority: 10 }] });
    assert.deepEqual(prioritiesIn(await shown('GET')), { [w1]: 10, [w2]: 1 });

    await shown('DELETE', { members: [jetson], delete: false });
    assert.deepEqual(prioritiesIn(await shown('GET')), { [w2]: 1 });
    await shown('DELETE', { members: [graspi] });
    assert.deepEqual(await shown('GET'), { topology, members: null });

    for (const service of [name, w1, w2]) {
      const { status } = await manager.call('DELETE', `/system/services/${service}`, { as });
      assert.equal(status, 204, service);
    }
  }
});

/** Who asks, where they say that both clusters are, and what becomes of the members. */
interface Way {
  readonly as: string;
  readonly endpoint: string;
  readonly state: 'ready' | 'pending';
}

interface Shown {
  readonly topology: string;
  readonly members: readonly ShownMember[] | null;
}

interface ShownMember {
  readonly service_name: string;
  readonly priority: number;
  readonly state?: string;
}

const memberOf = (cluster_id: string, service_name: string) => ({ type: 'oscar', cluster_id, service_name });

const prioritiesIn = ({ members }: Shown) =>
  Object.fromEntries((members ?? []).map(({ service_name, priority }) => [service_name, priority]));

const statesIn = ({ members }: Shown) => members?.map(({ state }) => state);

interface Front extends AsyncDisposable {
  readonly url: string;
}

/** Stands before a manager, as an ingress does. */
async function startFront(behind: string): Promise<Front> {
  const { hostname, port } = new URL(behind);
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    open.add(client);
    client.on('close', () => open.delete(client));
    client.pipe(upstream).pipe(client);
    client.on('error', () => upstream.destroy());
    upstream.on('error', () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(typeof address === 'object' && address);
  return {
    url: `http://127.0.0.1:${address.port}`,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
}
