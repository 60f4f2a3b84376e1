import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type GoManager, startGoManager } from '../../../test/support/go-manager.ts';
import { Secret } from '../../lib/secret.ts';
import { bearer } from '../client/stand-in.fixture.ts';
import { Transport } from '../connection/transport.ts';
import type { MemberKey, WorkerOrder } from '../peer.ts';
import { type UpstreamDeadlines, UpstreamPeer } from './upstream-peer.ts';

const token = (claims: object) => `e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.signature`;
const TOKEN = token({ sub: 'alice' });
const OWNER = bearer(TOKEN);
const KEY: MemberKey = {
  uid: 'f6a1',
  member: 'b/cow',
  key: new Secret('0123456789abcdef0123456789abcdef'),
  owner: async () => OWNER,
};

/** Looks again at once; waits for as long as a busy machine may need. */
const PATIENT: UpstreamDeadlines = {
  look: 60_000,
  make: 60_000,
  end: 60_000,
  settle: 60_000,
  again: 1,
};

async function setUp(t: TestContext, deadlines?: UpstreamDeadlines): Promise<{ go: GoManager; peer: UpstreamPeer }> {
  const go = await startGoManager();
  const address = { clusterId: 'b', endpoint: go.url, verify: true, guarded: false, kind: 'upstream' } as const;
  const transport = new Transport(address, { networks: [] });
  t.after(async () => {
    transport.close();
    await go[Symbol.asyncDispose]();
  });
  return { go, peer: new UpstreamPeer(address, transport, deadlines) };
}

function order(more: Record<string, unknown> = {}, changes: Partial<WorkerOrder> = {}): WorkerOrder {
  const document = {
    name: 'cow',
    image: 'cow',
    script: 'moo',
    federation: { group_id: 'cow', topology: 'star', members: [] },
    annotations: { 'oscar.grycap/origin-cluster': 'a', 'oscar.grycap/federation-worker': 'true' },
    ...more,
  };
  return {
    ...KEY,
    name: 'cow',
    revision: 1,
    origin: { clusterId: 'a', service: 'cow', endpoint: 'https://a.example', store: '' },
    body: new Secret(JSON.stringify(document)),
    digest: 'ab'.repeat(32),
    ...changes,
  };
}

/** The timer of requests alone, which the types of Node do not know. */
const DEADLINE = 'AbortSignal.timeout' as 'setTimeout';

const FILES = { output: [{ storage_provider: 'minio.default', path: 'cow/out' }] };

for (const { what, method, most, ask } of [
  { what: 'looked at', method: 'GET', most: 10_000, ask: (peer: UpstreamPeer) => peer.probe('cow', OWNER) },
  { what: 'made', method: 'POST', most: 16_000, ask: (peer: UpstreamPeer) => peer.create(order(), OWNER) },
]) {
  test(`deadline: a worker of a Go manager has ${most / 1000} s to be ${what}`, async (t) => {
    const { go, peer } = await setUp(t);
    t.mock.timers.enable({ apis: [DEADLINE] });
    const patient = go.hold(method);
    const answered = ask(peer);
    await patient.reached;
    t.mock.timers.tick(most - 1);
    patient.release();
    await answered;
    await peer.remove('cow', 'undo', KEY);

    const silent = go.hold(method);
    const given = ask(peer);
    await silent.reached;
    t.mock.timers.tick(most);
    await assert.rejects(given, { code: 'unreachable' });
    silent.release();
  });
}

test('deadline: a delete at a Go manager is not cut off after 3 s', async (t) => {
  const { go, peer } = await setUp(t);
  await peer.create(order(), OWNER);
  t.mock.timers.enable({ apis: [DEADLINE] });
  const held = go.hold('DELETE');
  const removing = peer.remove('cow', 'undo', KEY);
  await held.reached;
  t.mock.timers.tick(15_999);
  held.release();
  assert.equal(await removing, 'ended');
});

test('order: a create waits until the delete that is under way is answered, and its service gone', async (t) => {
  const { go, peer } = await setUp(t, PATIENT);
  await peer.create(order(), OWNER);
  go.lingersFor = 3;
  const held = go.hold('DELETE');
  const removing = peer.remove('cow', 'undo', KEY);
  await held.reached;
  const creating = peer.create(order({ script: 'moo moo' }), OWNER);
  for (let i = 0; i < 20; i++) await peer.probe('other', OWNER);
  held.release();
  assert.equal(await removing, 'ended');
  await creating;
  assert.deepEqual(go.overlaps, []);
  assert.equal(go.services.get('cow')?.['script'], 'moo moo');
});

test('order: a delete waits for the create that is under way, so that nothing is left behind', async (t) => {
  const { go, peer } = await setUp(t, PATIENT);
  const held = go.hold('POST');
  const creating = peer.create(order(), OWNER);
  await held.reached;
  const deleting = go.hold('DELETE');
  const removing = peer.remove('cow', 'undo', KEY);
  const others = async () => {
    for (let i = 0; i < 20; i++) await peer.probe('other', OWNER);
    return 'waits';
  };
  assert.equal(await Promise.race([deleting.reached, others()]), 'waits');
  held.release();
  await creating;
  deleting.release();
  assert.equal(await removing, 'ended');
  assert.deepEqual(go.overlaps, []);
  assert.equal(go.services.size, 0);
});

test('order: a service that is not gone after its delete was answered is not said to be ended', async (t) => {
  const { go, peer } = await setUp(t, { ...PATIENT, settle: 0 });
  await setUpWorker(go, peer, t);
  go.lingersFor = 2;
  await assert.rejects(peer.remove('cow', 'undo', KEY), { code: 'failed', message: /still deleting "cow"/ });
  assert.equal(await peer.remove('cow', 'undo', KEY).catch(() => peer.remove('cow', 'undo', KEY)), 'ended');
});

test('Go peer: a worker whose create was answered but which no read finds is not created', async (t) => {
  const { go, peer } = await setUp(t, { ...PATIENT, settle: 0 });
  go.showsAfter = 1;
  const unseen = { code: 'failed', message: /answered 201 for "cow", but does not show it/ };
  await assert.rejects(peer.create(order(), OWNER), unseen);
  assert.equal((await peer.inspect('cow', KEY))?.revision, 1);
});

test('sight: a worker is made when it is seen, however often it is not', async (t) => {
  const { go, peer } = await setUp(t, PATIENT);
  go.showsAfter = 5;
  await peer.create(order(), OWNER);
  assert.equal(go.seen.filter((each) => each.startsWith('GET') && each.endsWith('404')).length, 5);
});

test('reason: the text of a Go manager is shown on one line, masked and cut', async (t) => {
  const { go, peer } = await setUp(t, PATIENT);
  const secrets = order({ environment: { secrets: { A: 'hush', B: 'two\nlines' } } });
  const texts: [string, string][] = [
    ['', 'cluster "b" could not do it for "cow": it answered 500'],
    ['no room\n for "hush"', 'cluster "b" answered 500: no room for "[secret]"'],
    [`token ${TOKEN}`, 'cluster "b" answered 500: token [secret]'],
    [`of eyJhbGciOi.eyJzdWIi.c2ln, ${'f'.repeat(64)}`, 'cluster "b" answered 500: of [secret], [secret]'],
    ['"two\\nlines"', 'cluster "b" answered 500: "[secret]"'],
    ['<html><h1>Oops</h1>\u0007</html>', 'cluster "b" answered 500: Oops'],
    ['x'.repeat(9_000), `cluster "b" answered 500: ${'x'.repeat(159)}…`],
  ];
  for (const [text, message] of texts) {
    go.fails = { status: 500, text };
    await assert.rejects(peer.create(secrets, OWNER), { code: 'failed', message });
  }
});

test('reason: the status says what kind of problem it is, whatever the text says', async (t) => {
  const { go, peer } = await setUp(t, PATIENT);
  for (const [status, code] of [
    [401, 'refused'],
    [403, 'refused'],
    [422, 'failed'],
    [503, 'unreachable'],
  ] as const) {
    go.fails = { status, text: 'because' };
    const message = `cluster "b" answered ${status}: because`;
    await assert.rejects(peer.create(order(), OWNER), { code, message });
    if (status !== 403) await assert.rejects(peer.probe('cow', OWNER), { code, message });
  }
});

test('reason: a definition that a Go manager does not take is said in its words', async (t) => {
  const { go, peer } = await setUp(t, PATIENT);
  for (const status of [400, 409]) {
    go.fails = { status, text: 'the VO is unknown', method: 'POST' };
    const message = `cluster "b" answered ${status}: the VO is unknown`;
    await assert.rejects(peer.create(order(), OWNER), { code: 'failed', message });
  }
});

test('bucket: a worker makes none at a Go manager, whatever the topology of its federation', async (t) => {
  for (const topology of ['star', 'tree', 'none', 'mesh']) {
    const { go, peer } = await setUp(t, PATIENT);
    const federation = { group_id: 'cow', topology, members: [] };
    await peer.create(order({ ...FILES, federation }), OWNER);
    await peer.create(order({ ...FILES, federation, name: 'calf' }, { name: 'calf' }), OWNER);
    assert.deepEqual([...go.services.keys()], ['cow', 'calf'], topology);
    assert.equal(go.buckets.size, 0, topology);
  }
});

test('bucket: a worker is emptied before it is deleted, so that no bucket goes with it', async (t) => {
  const { go, peer } = await setUp(t, PATIENT);
  await peer.create(order(FILES), OWNER);
  go.buckets.set('cow', 'somebody-else');
  assert.equal(await peer.remove('cow', 'undo', KEY), 'ended');
  assert.deepEqual([...go.buckets.keys()], ['cow']);
  assert.deepEqual([...go.services.keys()], []);
});

test('bucket: a worker that cannot be emptied is not deleted, and it is said why', async (t) => {
  const { go, peer } = await setUp(t, PATIENT);
  await peer.create(order(FILES), OWNER);
  go.fails = { status: 500, text: 'read-only', method: 'PUT' };
  await assert.rejects(peer.remove('cow', 'undo', KEY), { message: 'cluster "b" answered 500: read-only' });
  assert.ok(go.services.has('cow'));
});

test('bucket: a worker that made its own buckets goes with them, whatever its manager says of them', async (t) => {
  const { go, peer } = await setUp(t, PATIENT);
  const star = await setUpWorker(go, peer, t, FILES);
  go.services.set('cow', { ...star, federation: { topology: 'star' } });
  // One is missing there: the answer is 500, and the service is gone all the same.
  assert.equal(await peer.remove('cow', 'undo', KEY), 'ended');
  assert.equal(go.services.size, 0);
  assert.ok(go.seen.at(-2)?.endsWith('500'));
});

/** A worker that is there already, as it is seen there. */
async function setUpWorker(go: GoManager, peer: UpstreamPeer, t: TestContext, more: Record<string, unknown> = {}) {
  await peer.create(order(more), OWNER);
  const made = go.services.get('cow');
  assert.ok(made, t.name);
  return made;
}
