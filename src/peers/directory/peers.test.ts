import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { bearer, startStandIn } from '../client/stand-in.fixture.ts';
import type { Peer, PeerAddress } from '../peer.ts';
import { createPeers, type PeersOptions } from './peers.ts';

/** Never called here: it only has to be told from others. */
const SELF = { name: 'self' } as unknown as Peer;
const KEY = { uid: 'f6a1', member: 'b/cow', key: new Secret('0123456789abcdef0123456789abcdef') };

function peersFor(t: TestContext, options: Partial<PeersOptions> = {}) {
  const peers = createPeers({ networks: [], self: SELF, isOwn: () => false, ...options });
  t.after(() => peers.close());
  return peers;
}

const at = (endpoint: string, more: Partial<PeerAddress> = {}): PeerAddress => ({
  clusterId: 'b',
  endpoint,
  verify: true,
  guarded: false,
  kind: 'oscar',
  ...more,
});

test('this manager is asked without dialling, under whatever cluster id', (t) => {
  const peers = peersFor(t, { isOwn: (endpoint) => endpoint === 'https://a.example' });
  assert.equal(peers.at(at('https://a.example')), SELF);
  assert.equal(peers.at(at('https://a.example', { clusterId: 'c', guarded: true, kind: 'upstream' })), SELF);
  assert.notEqual(peers.at(at('https://b.example')), SELF);
});

test('an address has one peer, and another way to it is another', (t) => {
  const peers = peersFor(t);
  const one = peers.at(at('https://b.example'));
  assert.equal(peers.at(at('https://b.example')), one);
  const others = [
    { verify: false },
    { guarded: true },
    { ca: 'PEM' },
    { kind: 'upstream' as const },
    { clusterId: 'c' },
  ];
  for (const other of others) assert.notEqual(peers.at(at('https://b.example', other)), one);
});

test('connections are kept between calls, and addresses without end are not', async (t) => {
  const standIn = await startStandIn();
  t.after(() => standIn.close());
  const peers = peersFor(t);
  const first = peers.at(at(standIn.endpoint));
  await first.probe('cow', bearer('owner'));
  await peers.at(at(standIn.endpoint)).probe('cow', bearer('owner'));
  assert.equal(new Set(standIn.requests.map(({ socket }) => socket)).size, 1);
  for (let i = 0; i < 300; i++) peers.at(at(`https://b${i}.example`));
  assert.notEqual(peers.at(at(standIn.endpoint)), first);
  assert.equal((await first.probe('cow', bearer('owner'))).found, 'nothing');
});

test('a peer that is being asked is not forgotten', async (t) => {
  const standIn = await startStandIn();
  t.after(() => standIn.close());
  const { promise: asked, resolve: isAsked } = Promise.withResolvers<() => void>();
  standIn.fault = (_request, response) => {
    isAsked(() => response.writeHead(404).end());
    return true;
  };
  const peers = peersFor(t);
  const found = peers.at(at(standIn.endpoint)).inspect('cow', KEY);
  const answer = await asked;
  for (let i = 0; i < 300; i++) peers.at(at(`https://b${i}.example`));
  answer();
  assert.equal(await found, undefined);
});

test('a user’s address is dialled only where users may point', async (t) => {
  const standIn = await startStandIn();
  t.after(() => standIn.close());
  const refused = peersFor(t).at(at(standIn.endpoint, { guarded: true }));
  await assert.rejects(refused.probe('cow', bearer('owner')), { code: 'unreachable', message: /OSCAR_PEER_NETWORKS/ });
  const networks = [{ address: '127.0.0.0', prefix: 8, family: 'ipv4' }] as const;
  const allowed = peersFor(t, { networks }).at(at(standIn.endpoint, { guarded: true }));
  assert.equal((await allowed.probe('cow', bearer('owner'))).found, 'nothing');
});
