import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { inspect } from 'node:util';
import { Secret } from '../../lib/secret.ts';
import { PeerConnection, type PeerConnectionOptions } from '../connection/peer-connection.ts';
import { Transport } from '../connection/transport.ts';
import { describePeer } from '../peer.conformance.ts';
import { type MemberKey, type Peer, PeerError, type WorkerOrder } from '../peer.ts';
import { type Deadlines, HttpPeer } from './http-peer.ts';
import { bearer, startStandIn } from './stand-in.fixture.ts';

describePeer('a manager over HTTP', async () => {
  const standIn = await startStandIn();
  const address = { clusterId: 'b', endpoint: standIn.endpoint, verify: true, guarded: false, kind: 'oscar' } as const;
  const transport = new Transport(address, { networks: [] });
  let version = 0;
  const write = async (name: string) => {
    version++;
    standIn.services.set(name, {
      owner: 'owner',
      version: `v${version}`,
      body: `{"name":"${name}","text":"${version}"}`,
    });
  };
  return {
    peer: new HttpPeer(address, new PeerConnection(address, transport)),
    owner: bearer('owner'),
    stranger: bearer('stranger'),
    nobody: bearer('nobody'),
    body: (name, text) => JSON.stringify({ name, text }),
    make: write,
    change: write,
    look: async (name) => standIn.services.get(name)?.body,
    async close() {
      transport.close();
      await standIn.close();
    },
  };
});

async function setUp(t: TestContext, options: PeerConnectionOptions & { deadlines?: Deadlines } = {}) {
  const standIn = await startStandIn();
  const address = { clusterId: 'b', endpoint: standIn.endpoint, verify: true, guarded: false, kind: 'oscar' } as const;
  const transport = new Transport(address, { networks: [] });
  t.after(async () => {
    transport.close();
    await standIn.close();
  });
  return { standIn, peer: new HttpPeer(address, new PeerConnection(address, transport, options), options.deadlines) };
}

const OWNER = bearer('owner');
const KEY: MemberKey = { uid: 'f6a1', member: 'b/cow', key: new Secret('0123456789abcdef0123456789abcdef') };
const BODY = '{"name":"cow","environment":{"secrets":{"A":"hush"}}}';
const ORDER: WorkerOrder = {
  ...KEY,
  name: 'cow',
  revision: 1,
  origin: { clusterId: 'a', service: 'cow', endpoint: 'https://a.example', store: '' },
  body: new Secret(BODY),
  digest: 'ab'.repeat(32),
};

/** All calls, by name. */
const CALLS: Record<keyof Peer, (peer: Peer) => Promise<unknown>> = {
  probe: (peer) => peer.probe('cow', OWNER),
  create: (peer) => peer.create(ORDER, OWNER),
  adopt: (peer) => peer.adopt(ORDER, 'v1', OWNER),
  rekey: (peer) => peer.rekey(ORDER, OWNER),
  inspect: (peer) => peer.inspect('cow', KEY),
  update: (peer) => peer.update(ORDER, KEY),
  remove: (peer) => peer.remove('cow', 'undo', KEY),
};
const names = Object.keys(CALLS) as (keyof Peer)[];

async function outcomes(peer: Peer): Promise<Record<string, string>> {
  const settled = names.map(async (name) => {
    const outcome = await CALLS[name](peer).then(
      () => 'done',
      (error) => (error instanceof PeerError ? error.code : String(error)),
    );
    return [name, outcome] as const;
  });
  return Object.fromEntries(await Promise.all(settled));
}

const all = (code: string, except: Partial<Record<keyof Peer, string>> = {}) => ({
  ...Object.fromEntries(names.map((name) => [name, code])),
  ...except,
});

const statuses: [string, number, Record<string, string>, Record<string, string>][] = [
  ['401 refuses', 401, {}, all('refused')],
  ['403 refuses', 403, {}, all('refused')],
  ['405 is no manager', 405, {}, all('unreachable')],
  ['409 is a name that is taken, or a revision that is old', 409, {}, all('taken', { update: 'stale' })],
  ['410 is the end, which for a removal is what it wants', 410, {}, all('gone', { remove: 'done' })],
  ['412 is an old version', 412, {}, all('stale')],
  ['429 is a failure', 429, {}, all('failed')],
  ['500 is a failure', 500, {}, all('failed')],
  ['502 is nobody', 502, {}, all('unreachable')],
  ['503 is nobody', 503, {}, all('unreachable')],
  ['504 is nobody', 504, {}, all('unreachable')],
  ['400 is a failure', 400, {}, all('failed')],
  ['a redirect is a failure', 307, { location: 'http://127.0.0.1:1/elsewhere' }, all('failed')],
  [
    '404 without words is no manager, unless it was asked for a worker',
    404,
    {},
    all('unreachable', { rekey: 'done', inspect: 'done', update: 'failed' }),
  ],
  ['404 with a page is no manager', 404, { 'content-type': 'text/html' }, all('unreachable')],
  ['200 with a page is no manager', 200, { 'content-type': 'text/html' }, all('unreachable')],
  ['200 with other JSON is no manager', 200, { 'content-type': 'application/json' }, all('unreachable')],
];
for (const [name, status, headers, expected] of statuses) {
  test(name, async (t) => {
    const { standIn, peer } = await setUp(t);
    const page = headers['content-type'] === 'application/json' ? '{"found":"everything"}' : '<p>hush</p>';
    standIn.fault = (_request, response) => {
      response.writeHead(status, headers).end('content-type' in headers ? page : undefined);
      return true;
    };
    assert.deepEqual(await outcomes(peer), expected);
    assert.ok(standIn.requests.every(({ url }) => url !== '/elsewhere'));
  });
}

test('a refusal names the cluster and why, and nothing that the other side said or was told', async (t) => {
  const { standIn, peer } = await setUp(t);
  for (const status of [200, 302, 400, 401, 403, 404, 409, 410, 412, 418, 500, 503]) {
    standIn.fault = (_request, response) => {
      response.writeHead(status, 'hush', { 'content-type': 'text/plain', 'x-hush': 'hush' }).end('hush');
      return true;
    };
    for (const name of names) {
      const error = await CALLS[name](peer).catch((reason: Error) => reason);
      if (name === 'remove' && status === 410) continue;
      assert.ok(error instanceof PeerError);
      assert.match(error.message, /^cluster "b"/);
      assert.doesNotMatch(inspect(error, { depth: 9 }), /hush|0123456789abcdef|owner"/);
    }
  }
});

test('a member key goes where an order goes, and into no signed request but a removal', async (t) => {
  const { standIn, peer } = await setUp(t);
  await outcomes(peer);
  const carrying = standIn.requests
    .filter(({ headers }) => 'x-oscar-federation' in headers)
    .map(({ method = '' }) => method);
  assert.deepEqual(carrying.toSorted(), ['DELETE', 'POST', 'PUT', 'PUT']);
  const signed = standIn.requests.filter(({ headers }) => 'x-oscar-member' in headers);
  assert.deepEqual(signed.map(({ method = '' }) => method).toSorted(), ['DELETE', 'GET', 'PUT']);
  assert.ok(signed.every(({ headers }) => headers.authorization === undefined));
});

test('an account there is sent as Basic', async (t) => {
  const { standIn, peer } = await setUp(t);
  const account = { kind: 'basic', username: 'oscar', password: new Secret('s:ö') } as const;
  await assert.rejects(peer.probe('cow', account), { code: 'refused' });
  assert.equal(standIn.requests[0]?.headers.authorization, `Basic ${Buffer.from('oscar:s:ö').toString('base64')}`);
});

test('a token with a line break goes nowhere, and is not shown', async (t) => {
  const { standIn, peer } = await setUp(t);
  await assert.rejects(peer.probe('cow', bearer('hush\r\nX-Evil: 1')), (error: Error) => {
    assert.doesNotMatch(inspect(error), /hush/);
    return 'code' in error && error.code === 'refused';
  });
  assert.equal(standIn.requests.length, 0);
});

test('what is no name of a service does not come into a path', async (t) => {
  const { standIn, peer } = await setUp(t);
  for (const name of ['../config', 'a/b', 'cow?x', '']) {
    await assert.rejects(peer.probe(name, OWNER), { code: 'failed' });
    await assert.rejects(peer.inspect(name, KEY), { code: 'failed' });
  }
  assert.equal(standIn.requests.length, 0);
});

for (const hours of [-3, 3]) {
  test(`a clock that is ${hours} hours off is corrected once, and remembered`, async (t) => {
    const { standIn, peer } = await setUp(t);
    await peer.create(ORDER, OWNER);
    standIn.ahead = hours * 3_600_000;
    standIn.requests.length = 0;
    assert.equal((await peer.inspect('cow', KEY))?.revision, 1);
    assert.equal(standIn.requests.length, 2);
    await peer.update({ ...ORDER, revision: 2 }, KEY);
    assert.equal(standIn.requests.length, 3);
    standIn.ahead = 0;
    assert.equal((await peer.inspect('cow', KEY))?.revision, 2);
    assert.equal(standIn.requests.length, 5);
  });
}

test('a refusal that clocks do not explain is not asked about twice', async (t) => {
  const { standIn, peer } = await setUp(t);
  await peer.create(ORDER, OWNER);
  const forged = { ...KEY, key: new Secret('another key of another member') };
  for (const hours of [0, 30]) {
    standIn.ahead = hours * 3_600_000;
    standIn.requests.length = 0;
    await assert.rejects(peer.inspect('cow', forged), { code: 'refused' });
    assert.equal(standIn.requests.length, 1);
  }
});

test('who is silent is not asked in the background for a while, and users always ask', async (t) => {
  const clock = { ms: 0 };
  const { standIn, peer } = await setUp(t, { elapsed: () => clock.ms });
  await peer.create(ORDER, OWNER);
  standIn.fault = ({ socket }) => socket.resetAndDestroy() !== undefined;
  for (let i = 0; i < 3; i++) await assert.rejects(peer.inspect('cow', KEY), { code: 'unreachable' });
  standIn.requests.length = 0;
  const resting = {
    code: 'unreachable',
    message:
      'cluster "b": "127.0.0.1" cannot be reached: the connection was cut (several times in a row: it is asked again in a while)',
  };
  await assert.rejects(peer.inspect('cow', KEY), resting);
  await assert.rejects(peer.update(ORDER, KEY), resting);
  await assert.rejects(peer.remove('cow', 'undo', KEY), resting);
  assert.equal(standIn.requests.length, 0);
  await assert.rejects(peer.probe('cow', OWNER), /connection was cut/);
  await assert.rejects(peer.create(ORDER, OWNER), /connection was cut/);
  standIn.fault = () => false;
  clock.ms = 4_999;
  await assert.rejects(peer.inspect('cow', KEY), resting);
  clock.ms = 5_000;
  assert.equal((await peer.inspect('cow', KEY))?.revision, 1);
  assert.equal((await peer.inspect('cow', KEY))?.revision, 1, 'it answered, and still is left alone');
});

test('who was silent and answers again is told of once', async (t) => {
  const back: string[] = [];
  const { standIn, peer } = await setUp(t, { onRecovered: ({ endpoint }) => back.push(endpoint) });
  await peer.create(ORDER, OWNER);
  standIn.fault = ({ socket }) => socket.resetAndDestroy() !== undefined;
  await assert.rejects(peer.inspect('cow', KEY), { code: 'unreachable' });
  assert.deepEqual(back, []);
  standIn.fault = () => false;
  await peer.inspect('cow', KEY);
  await peer.inspect('cow', KEY);
  assert.deepEqual(back, [standIn.endpoint]);
});

test('a refusal is an answer: who refuses is not silent', async (t) => {
  const { standIn, peer } = await setUp(t);
  const forged = { ...KEY, key: new Secret('another key of another member') };
  await peer.create(ORDER, OWNER);
  for (let i = 0; i < 5; i++) await assert.rejects(peer.inspect('cow', forged), { code: 'refused' });
  assert.equal(standIn.requests.length, 6);
});

test('each kind of call has its own deadline', async (t) => {
  const { standIn, peer } = await setUp(t, { deadlines: { look: 40, make: 40, end: 40 } });
  standIn.fault = () => true;
  assert.deepEqual(await outcomes(peer), all('unreachable'));
});
