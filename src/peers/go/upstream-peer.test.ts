import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { bearer } from '../client/stand-in.fixture.ts';
import { Transport } from '../connection/transport.ts';
import { type MemberKey, PeerError, type WorkerOrder } from '../peer.ts';
import { UpstreamPeer } from './upstream-peer.ts';

interface Document {
  name: string;
  owner?: string;
  [key: string]: unknown;
}

const KEYLESS: MemberKey = { uid: 'f6a1', member: 'b/cow', key: new Secret('0123456789abcdef0123456789abcdef') };
const OWNER = bearer('alice');
const KEY: MemberKey = { ...KEYLESS, owner: async () => OWNER };

/**
 * As much of a manager in Go as is asked here (docs/go-manager.md#services): services by name, each seen by its owner.
 */
async function startUpstream(t: TestContext) {
  const services = new Map<string, Document>();
  const requests: { method: string; url: string; headers: http.IncomingHttpHeaders; body: string }[] = [];
  const respond = async (request: http.IncomingMessage, response: http.ServerResponse) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const { method = '', url = '', headers } = request;
    requests.push({ method, url, headers, body });
    const user = /^Bearer (alice|bob)$/.exec(headers.authorization ?? '')?.[1];
    const [status, answer] = user === undefined ? [401] : reply(services, user, { method, url, body });
    if (answer !== undefined) response.setHeader('content-type', 'application/json; charset=utf-8');
    response.writeHead(status).end(answer && JSON.stringify(answer));
  };
  const server = http.createServer((request, response) => void respond(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const address = { clusterId: 'b', endpoint, verify: true, guarded: false, kind: 'upstream' } as const;
  const transport = new Transport(address, { networks: [] });
  t.after(() => {
    transport.close();
    server.closeAllConnections();
    server.close();
  });
  return { services, requests, peer: new UpstreamPeer(address, transport), instance: `upstream:${endpoint}` };
}

function reply(
  services: Map<string, Document>,
  user: string,
  { method, url, body }: { method: string; url: string; body: string },
): [number, object?] {
  if (method === 'POST' || method === 'PUT') {
    const given = JSON.parse(body) as Document;
    if (services.has(given.name) === (method === 'POST')) return [method === 'POST' ? 400 : 404];
    // It fills in labels and a token, and blanks the secrets.
    const environment = { ...(given['environment'] as object), secrets: { A: '' } };
    services.set(given.name, { ...given, environment, labels: { oscar_service: given.name }, token: 't', owner: user });
    return [method === 'POST' ? 201 : 204];
  }
  const name = url.replace('/system/services/', '');
  const service = services.get(name);
  if (!service) return [404];
  const sees = service.owner === user || service['visibility'] === 'public';
  if (method === 'GET') return sees ? [200, service] : [403];
  if (service.owner !== user) return [404];
  services.delete(name);
  return [204];
}

function order(changes: Partial<WorkerOrder> = {}, script = 'moo'): WorkerOrder {
  const document = {
    name: 'cow',
    image: 'cow',
    script,
    cpu: '1',
    federation: { group_id: 'cow', topology: 'mesh', members: [{ cluster_id: 'a' }] },
    environment: { variables: { B: '2', A: '1' }, secrets: { A: 'hush' } },
    annotations: { mine: 'x', 'oscar.grycap/origin-cluster': 'a', 'oscar.grycap/federation-worker': 'true' },
  };
  return {
    ...KEYLESS,
    name: 'cow',
    revision: 1,
    origin: { clusterId: 'a', service: 'cow', endpoint: 'https://a.example', store: '' },
    body: new Secret(JSON.stringify(document)),
    digest: 'ab'.repeat(32),
    ...changes,
  };
}

const STRANGE: Document = { name: 'cow', owner: 'alice', script: 'mine' };

test('a worker is made as upstream makes them: marks in annotations, no headers of ours, no member list', async (t) => {
  const { peer, requests, services } = await startUpstream(t);
  assert.equal((await peer.probe('cow', OWNER)).found, 'nothing');
  await peer.create(order(), OWNER);
  assert.ok(requests.every(({ headers }) => Object.keys(headers).every((name) => !name.startsWith('x-oscar'))));
  const sent = JSON.parse(requests.find(({ method }) => method === 'POST')?.body ?? '') as Document;
  assert.deepEqual(sent['federation'], { group_id: 'cow', topology: 'mesh' });
  assert.deepEqual(sent['environment'], { variables: { B: '2', A: '1' }, secrets: { A: 'hush' } });
  const { 'oscar.grycap/federation-content': content, ...annotations } = sent['annotations'] as Record<string, string>;
  assert.match(content ?? '', /^[0-9a-f]{64}$/);
  assert.deepEqual(annotations, {
    mine: 'x',
    'oscar.grycap/origin-cluster': 'a',
    'oscar.grycap/federation-worker': 'true',
    'oscar.grycap/federation-uid': 'f6a1',
    'oscar.grycap/federation-revision': '1',
    'oscar.grycap/federation-digest': 'ab'.repeat(32),
  });
  assert.equal(services.size, 1);
});

test('Go peer: a probe reports the federation of the member, and to others that the name is taken', async (t) => {
  const { peer, instance } = await startUpstream(t);
  await peer.create(order({ revision: 3 }), OWNER);
  assert.deepEqual(await peer.probe('cow', OWNER), { instance, found: 'member', uid: 'f6a1', revision: 3 });
  assert.deepEqual(await peer.probe('cow', bearer('bob')), { instance, found: 'taken' });
});

test('a create that comes again is the same worker', async (t) => {
  const { peer, services } = await startUpstream(t);
  await peer.create(order(), OWNER);
  const before = services.get('cow');
  await peer.create(order(), OWNER);
  assert.equal(services.get('cow'), before);
});

test('whatever has the name has it, and nothing of it is touched, by an undo neither', async (t) => {
  const { peer, services } = await startUpstream(t);
  services.set('cow', STRANGE);
  assert.equal((await peer.probe('cow', OWNER)).found, 'taken');
  assert.equal((await peer.probe('cow', bearer('bob'))).found, 'taken');
  await assert.rejects(peer.create(order(), OWNER), { code: 'taken' });
  await assert.rejects(peer.create(order(), bearer('bob')), { code: 'taken' });
  await assert.rejects(peer.adopt(order()), { code: 'taken' });
  await assert.rejects(peer.update(order({ revision: 2 }), KEY), { code: 'failed' });
  assert.equal(await peer.inspect('cow', KEY), undefined);
  await peer.remove('cow', 'undo', KEY);
  assert.equal(services.get('cow'), STRANGE);
});

test('a worker of another federation is not ours to end', async (t) => {
  const { peer, services } = await startUpstream(t);
  await peer.create(order({ uid: 'other' }), OWNER);
  await assert.rejects(peer.create(order(), OWNER), { code: 'taken' });
  await peer.remove('cow', 'undo', KEY);
  assert.equal(services.size, 1);
});

test('Go peer: the digest of the order identifies a worker, and differs after a change by others', async (t) => {
  const { peer, services, instance } = await startUpstream(t);
  assert.equal(await peer.inspect('cow', KEY), undefined);
  await peer.create(order(), OWNER);
  assert.deepEqual(await peer.inspect('cow', KEY), { instance, revision: 1, digest: order().digest });
  services.set('cow', { ...(services.get('cow') as Document), script: 'changed' });
  const changed = await peer.inspect('cow', KEY);
  assert.match(changed?.digest ?? '', /^[0-9a-f]{64}$/);
  assert.notEqual(changed?.digest, order().digest);
});

test('a newer order is taken up, and an older one is stale', async (t) => {
  const { peer, services } = await startUpstream(t);
  await peer.create(order({ revision: 3 }), OWNER);
  await peer.update(order({ revision: 4, digest: 'cd'.repeat(32) }, 'moo moo'), KEY);
  assert.equal(services.get('cow')?.['script'], 'moo moo');
  await assert.rejects(peer.update(order({ revision: 3 }), KEY), { code: 'stale' });
  const state = await peer.inspect('cow', KEY);
  assert.deepEqual([state?.revision, state?.digest], [4, 'cd'.repeat(32)]);
});

test('an undo ends it, twice is fine, and a worker that is let go stays', async (t) => {
  const { peer, services } = await startUpstream(t);
  await peer.create(order(), OWNER);
  await peer.remove('cow', 'detach', KEY);
  assert.equal(services.size, 1);
  await peer.remove('cow', 'undo', KEY);
  await peer.remove('cow', 'undo', KEY);
  assert.equal(services.size, 0);
});

test('Go peer: without credentials for the key no request is sent, and the error says what helps', async (t) => {
  const { peer, requests } = await startUpstream(t);
  const refused = { code: 'refused', message: /written in Go.*PUT the service once/ };
  await assert.rejects(peer.inspect('cow', KEYLESS), refused);
  await assert.rejects(peer.update(order(), KEYLESS), refused);
  await assert.rejects(peer.remove('cow', 'undo', KEYLESS), refused);
  const owner = () => Promise.reject(new PeerError('refused', 'the grant has expired'));
  const expired = { code: 'refused', message: /written in Go.*the grant has expired/ };
  await assert.rejects(peer.remove('cow', 'undo', { ...KEYLESS, owner }), expired);
  assert.equal(requests.length, 0);
});

test('who sees a worker that is not theirs does not end it, and it is not said to be ended', async (t) => {
  const { peer, services } = await startUpstream(t);
  await peer.create(order(), OWNER);
  services.set('cow', { ...(services.get('cow') as Document), visibility: 'public' });
  const bob = { ...KEYLESS, owner: async () => bearer('bob') };
  await assert.rejects(peer.remove('cow', 'undo', bob), { code: 'refused' });
  assert.equal(services.size, 1);
});

test('Go peer: an unknown caller is rejected', async (t) => {
  const { peer } = await startUpstream(t);
  await assert.rejects(peer.probe('cow', bearer('eve')), { code: 'refused' });
  await assert.rejects(peer.create(order(), bearer('eve')), { code: 'refused' });
});

test('a definition that it does not take is a failure, not a name that is taken', async (t) => {
  const { peer, services, requests } = await startUpstream(t);
  services.has = () => true;
  await assert.rejects(peer.create(order(), OWNER), { code: 'failed' });
  assert.deepEqual(
    requests.map(({ method }) => method),
    ['POST', 'GET'],
  );
});

test('what is no name of a service does not come into a path', async (t) => {
  const { peer, requests } = await startUpstream(t);
  await assert.rejects(peer.probe('../config', OWNER), { code: 'failed' });
  assert.equal(requests.length, 0);
});
