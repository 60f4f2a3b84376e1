import assert from 'node:assert/strict';
import { createHash, createHmac, randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import {
  type Clusters,
  create,
  expectStatus,
  federated,
  member,
  read,
  services,
  startClusters,
  type TestCluster,
} from '../support/federation.ts';
import { service } from '../support/jobs.ts';
import type { Answer } from '../support/manager.ts';
import type { Seen } from '../support/wire.ts';

let them: Clusters;
before(async () => {
  them = await startClusters({ registered: true });
});
after(() => them[Symbol.asyncDispose]());

/** The request with which the coordinator created a member. */
interface Order {
  readonly uid: string;
  readonly revision: number;
  readonly member: string;
  readonly key: string;
  readonly digest: string;
}

/** A federation of alice's with one worker at a, and the order that made it. */
async function federation(name: string): Promise<{ worker: string; path: string; order: Order; made: Seen }> {
  const { origin, a, people } = them;
  const worker = `${name}1`;
  await create(origin, people.alice, federated(name, [member(a, worker)], {}));
  const made = a.wire.seen.find(({ method, body }) => method === 'POST' && body.includes(`"${worker}"`));
  assert.ok(made);
  const header = String(made.headers['x-oscar-federation']);
  const order = JSON.parse(Buffer.from(header, 'base64url').toString()) as Order;
  return { worker, path: `/system/services/${worker}/federation`, order, made };
}

interface Signing {
  readonly method: string;
  readonly path: string;
  readonly query?: string;
  readonly body?: string;
  readonly time?: number;
}

/** Written from docs/peer-protocol.md, without the code under test. */
function sign(
  { uid, member: who, key }: Pick<Order, 'uid' | 'member' | 'key'>,
  signing: Signing,
): Record<string, string> {
  const { method, path, query = '', body = '', time = Date.now() } = signing;
  const nonce = randomBytes(16).toString('base64url');
  const digest = createHash('sha256').update(body).digest('hex');
  const lines = [method, path, query, digest, time, nonce].join('\n');
  const signature = createHmac('sha256', key).update(lines).digest('hex');
  return {
    'x-oscar-member': [uid, who, time, nonce, signature].join(';'),
    ...(body !== '' && { 'content-digest': `sha-256=:${createHash('sha256').update(body).digest('base64')}:` }),
  };
}

const ask = (
  at: TestCluster,
  { method, path, query, body }: Signing,
  headers: Record<string, string>,
): Promise<Answer> =>
  at.call(method, query ? `${path}?${query}` : path, { headers, ...(body !== undefined && { body }) });

test('signature: the holder of a member key reads and updates the member as docs/peer-protocol.md says', async () => {
  const { a, people } = them;
  const { path, order, made, worker } = await federation('true');
  const inspect = { method: 'GET', path };
  const state = expectStatus(await ask(a, inspect, sign(order, inspect)), 200).json() as Order & { found: string };
  assert.deepEqual([state.found, state.revision, state.digest], ['worker', 1, order.digest]);

  const definition = { ...JSON.parse(made.body), script: '#!/bin/sh\necho signed\n' };
  const body = JSON.stringify({ revision: 2, digest: 'a'.repeat(64), definition });
  const update = { method: 'PUT', path, body };
  expectStatus(await ask(a, update, sign(order, update)), 204);
  assert.match((await read(a, people.alice, worker)).script, /signed/);
  const older = { ...update, body: JSON.stringify({ revision: 1, digest: 'b'.repeat(64), definition }) };
  expectStatus(await ask(a, older, sign(order, older)), 409);
});

test('signature: an update that arrives several times at once is applied once, and each answer says so', async () => {
  const { a, people } = them;
  const { path, order, made, worker } = await federation('manifold');
  for (let revision = 2; revision <= 6; revision++) {
    const definition = { ...JSON.parse(made.body), script: `#!/bin/sh\necho ${revision}\n` };
    const body = JSON.stringify({ revision, digest: String(revision).repeat(64), definition });
    const update = { method: 'PUT', path, body };
    const answers = await Promise.all([1, 2, 3, 4].map(() => ask(a, update, sign(order, update))));
    for (const answer of answers) expectStatus(answer, 204);
    assert.match((await read(a, people.alice, worker)).script, new RegExp(`echo ${revision}`));
  }
});

describe('signature: a request with a wrong signature is 401, and changes nothing', () => {
  const cases: [name: string, forge: (order: Order, other: Order, given: Signing) => Record<string, string>][] = [
    ['without a key of its own', (order, _, given) => sign({ ...order, key: 'made up' }, given)],
    ['with the key of another member', (order, other, given) => sign({ ...order, key: other.key }, given)],
    ['for another method', (order, _, given) => sign(order, { ...given, method: 'GET' })],
    ['for another path', (order, _, given) => sign(order, { ...given, path: '/system/services/other/federation' })],
    ['for another query', (order, _, given) => sign(order, { ...given, query: 'how=detach' })],
    ['for another body', (order, _, given) => sign(order, { ...given, body: 'x' })],
    ['six minutes ago', (order, _, given) => sign(order, { ...given, time: Date.now() - 6 * 60_000 })],
    ['in six minutes', (order, _, given) => sign(order, { ...given, time: Date.now() + 6 * 60_000 })],
    [
      'for another service of the cluster',
      (order, _, given) => sign({ ...order, member: 'oscar-cluster-a/other' }, given),
    ],
    ['with junk', () => ({ 'x-oscar-member': 'a;b;c' })],
    ['with nothing', () => ({ 'x-oscar-member': '' })],
  ];
  for (const [name, forge] of cases) {
    test(name, async () => {
      const { a } = them;
      const id = `case${cases.findIndex(([each]) => each === name)}`;
      const [mine, other] = [await federation(id), await federation(`${id}x`)];
      const remove = { method: 'DELETE', path: mine.path, query: 'how=undo' };
      const answer = await ask(a, remove, forge(mine.order, other.order, remove));
      expectStatus(answer, 401);
      assert.ok(!answer.text.includes(mine.order.key));
      assert.ok((await services(a)).includes(mine.worker));
    });
  }

  test('an unknown uid is 404', async () => {
    const { a } = them;
    const { order, path, worker } = await federation('uidless');
    const remove = { method: 'DELETE', path, query: 'how=undo' };
    expectStatus(await ask(a, remove, sign({ ...order, uid: '5b0c9b0e-6f5c-4d0e-9d8f-2f3a1c7e4b6a' }, remove)), 404);
    assert.ok((await services(a)).includes(worker));
  });
});

test('signature: a key in the request ends only what was created with it', async () => {
  const { a, people } = them;
  const { order, path, worker } = await federation('brought');
  const mallory = { ...order, key: randomBytes(32).toString('base64url') };
  const remove = { method: 'DELETE', path, query: 'how=undo' };
  const brought = { uid: mallory.uid, member: mallory.member, key: mallory.key };
  const headers = { 'x-oscar-federation': Buffer.from(JSON.stringify(brought)).toString('base64url') };
  await ask(a, remove, { ...headers, ...sign(mallory, remove) });
  assert.ok((await services(a)).includes(worker));
  assert.equal((await read(a, people.alice, worker)).name, worker);
  const inspect = { method: 'GET', path };
  expectStatus(await ask(a, inspect, sign(order, inspect)), 200);
});

test('signature: a key in the request does not touch a plain service', async () => {
  const { a, people } = them;
  await create(a, people.bob, service('ofbob', 'echo bob'));
  const was = await read(a, people.bob, 'ofbob');
  const forged = {
    uid: '5b0c9b0e-6f5c-4d0e-9d8f-2f3a1c7e4b6a',
    member: 'oscar-cluster-a/ofbob',
    key: randomBytes(32).toString('base64url'),
  };
  const path = '/system/services/ofbob/federation';
  const headers = { 'x-oscar-federation': Buffer.from(JSON.stringify(forged)).toString('base64url') };
  for (const how of ['undo', 'detach']) {
    const remove = { method: 'DELETE', path, query: `how=${how}` };
    await ask(a, remove, { ...headers, ...sign(forged, remove) });
  }
  const update = {
    method: 'PUT',
    path,
    body: JSON.stringify({ revision: 9, digest: 'a'.repeat(64), definition: service('ofbob', 'evil') }),
  };
  expectStatus(await ask(a, update, sign(forged, update)), 404);
  assert.deepEqual(await read(a, people.bob, 'ofbob'), was);
});

describe('replay: a recorded request that is sent again', () => {
  test('a create after its worker is gone is 410, for every sender', async () => {
    const { origin, a, people } = them;
    const { made, worker } = await federation('replayed');
    expectStatus(await origin.call('DELETE', '/system/services/replayed', { as: people.alice }), 204);
    const headers = { 'x-oscar-federation': String(made.headers['x-oscar-federation']) };
    for (const as of [people.alice, people.bob]) {
      expectStatus(await a.call('POST', '/system/services', { as, headers, body: made.body }), 410);
    }
    assert.ok(!(await services(a)).includes(worker));
  });

  test('a repeated create changes nothing', async () => {
    const { a, people } = them;
    const { made, worker } = await federation('repeated');
    const was = await read(a, people.alice, worker);
    const headers = { 'x-oscar-federation': String(made.headers['x-oscar-federation']) };
    expectStatus(await a.call('POST', '/system/services', { as: people.alice, headers, body: made.body }), 201);
    assert.deepEqual(await read(a, people.alice, worker), was);
  });

  test('an outdated update is 409, and an update of a removed worker is 410', async () => {
    const { origin, a, people } = them;
    const { worker, path } = await federation('old');
    const as = people.alice;
    const change = async (priority: number) => {
      const body = { update: [member(a, worker, { priority })] };
      expectStatus(await origin.call('PUT', '/system/federation/old', { as, body }), 200);
    };
    await change(2);
    await change(3);
    const [second] = a.wire.seen.filter(({ method, path: where }) => method === 'PUT' && where === path);
    assert.match(second?.body ?? '', /"revision":2/);
    const replay = () =>
      a.call('PUT', path, {
        headers: {
          'x-oscar-member': String(second?.headers['x-oscar-member']),
          'content-digest': String(second?.headers['content-digest']),
        },
        body: second?.body,
      });
    expectStatus(await replay(), 409);
    assert.equal((await read(a, as, worker)).annotations?.['oscar.grycap/federation-revision'], '3');
    expectStatus(await origin.call('DELETE', '/system/services/old', { as }), 204);
    expectStatus(await replay(), 410);
    assert.ok(!(await services(a)).includes(worker));
  });

  test('an outdated new key is 412, and replaces nothing', async () => {
    const { origin, a, people } = them;
    const as = people.alice;
    const { worker } = await federation('keyed');
    const put = async (script: string) => {
      const body = federated('keyed', [], {}, { script: `#!/bin/sh\necho ${script}\n` });
      expectStatus(await origin.call('PUT', '/system/services', { as, body }), 204);
    };
    await put('two');
    await put('three');
    const [first, second] = a.wire.seen.filter(
      ({ method, path, body }) => method === 'PUT' && path === '/system/services' && body.includes(worker),
    );
    const keyIn = (seen: typeof first) =>
      JSON.parse(Buffer.from(String(seen?.headers['x-oscar-federation']), 'base64url').toString()).key;
    assert.ok(second && keyIn(first) !== keyIn(second), 'each PUT brings another key');
    const headers = { 'x-oscar-federation': String(first?.headers['x-oscar-federation']), 'if-match': '*' };
    expectStatus(await a.call('PUT', '/system/services', { as, headers, body: first?.body }), 412);
    for (const other of [people.bob, a.admin]) {
      const newer = { 'x-oscar-federation': String(second.headers['x-oscar-federation']), 'if-match': '*' };
      expectStatus(await a.call('PUT', '/system/services', { as: other, headers: newer, body: second.body }), 409);
    }
    assert.match((await read(a, as, worker)).script, /three/);
    await put('four');
    assert.match((await read(a, as, worker)).script, /four/);
  });

  test('a removal ends nothing that was added again since', async () => {
    const { origin, a, people } = them;
    const { worker, path } = await federation('again');
    const members = [member(a, worker)];
    const as = people.alice;
    expectStatus(await origin.call('DELETE', '/system/federation/again', { as, body: { members } }), 200);
    const removal = a.wire.seen.findLast(({ method, path: where }) => method === 'DELETE' && where.startsWith(path));
    expectStatus(await origin.call('POST', '/system/federation/again', { as, body: { members } }), 200);
    assert.ok((await services(a)).includes(worker), 'a tombstone hinders its own key alone');
    const headers = {
      'x-oscar-member': String(removal?.headers['x-oscar-member']),
      'x-oscar-federation': String(removal?.headers['x-oscar-federation']),
    };
    expectStatus(await a.call('DELETE', removal?.path ?? '', { headers }), 204);
    assert.ok((await services(a)).includes(worker));
  });
});

test('secrets: the keys of members are in no log and in no answer', async () => {
  const { origin, a, people } = them;
  const { order, made, worker } = await federation('quiet');
  const header = String(made.headers['x-oscar-federation']);
  const shown = JSON.stringify([
    origin.manager.log,
    a.manager.log,
    await read(origin, people.alice, 'quiet'),
    await read(a, people.alice, worker),
  ]);
  assert.ok(!shown.includes(order.key) && !shown.includes(header));
});
