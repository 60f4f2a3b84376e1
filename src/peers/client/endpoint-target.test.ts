import assert from 'node:assert/strict';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import type { Offer } from '../delegation-ports.ts';
import { type EndpointOptions, EndpointTarget } from './endpoint-target.ts';
import { listen } from './listener.fixture.ts';

const LOOPBACK = { address: '127.0.0.1', prefix: 32, family: 'ipv4' } as const;
const OFFER: Offer = {
  job: { service: 'cow', id: 'cow-1' },
  epoch: 1,
  service: '',
  from: 'a',
  event: Buffer.from('{"a":1}'),
  trigger: 'job',
  pinned: false,
};

function targetAt(t: TestContext, url: string, more: Partial<EndpointOptions> = {}): EndpointTarget {
  const target = new EndpointTarget({ url, verify: true, headers: {}, networks: [LOOPBACK], ...more });
  t.after(() => target.close());
  return target;
}

test('it gets the event and the headers of its owner, and nothing else of ours', async (t) => {
  const { endpoint, requests } = await listen(t, () => ({ status: 200, text: 'done' }));
  const headers = {
    'X-Api-Key': new Secret('its own'),
    Host: new Secret('elsewhere'),
    'Content-Length': new Secret('1'),
    'Transfer-Encoding': new Secret('chunked'),
  };
  const answer = await targetAt(t, `${endpoint}/take?a=b`, { headers }).offer(OFFER);
  assert.deepEqual(answer, { kind: 'taken', attempt: '', done: true });
  const [{ method, url, headers: sent, body } = assert.fail('nobody was asked')] = requests;
  assert.equal(`${method} ${url}`, 'POST /take?a=b');
  assert.equal(body, '{"storage_provider":"default","event":"{\\"a\\":1}"}');
  const { host, connection: _, ...rest } = sent;
  assert.equal(`http://${host}`, endpoint);
  assert.deepEqual(rest, {
    'content-type': 'application/json',
    'content-length': String(body.length),
    'x-api-key': 'its own',
  });
});

for (const status of [201, 202, 204, 301, 400, 401, 500, 503]) {
  test(`${status} is no success`, async (t) => {
    const { endpoint } = await listen(t, () => ({ status, text: 'words of the other side' }));
    const answer = await targetAt(t, endpoint).offer(OFFER);
    assert.ok(answer.kind === 'refused' && answer.code === 'failed');
    assert.match(answer.reason, new RegExp(`^the endpoint at 127.0.0.1:\\d+ answered ${status}$`));
  });
}

test('it may answer as much as it likes', async (t) => {
  const server = http.createServer((_request, response) => {
    response.writeHead(200);
    const write = () => void response.write('x'.repeat(65_536), (error) => error ?? write());
    response.on('error', () => undefined);
    write();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  assert.equal((await targetAt(t, url).offer(OFFER)).kind, 'taken');
});

test('endpoint: without an answer the outcome is unknown', async (t) => {
  const { endpoint } = await listen(t, () => undefined);
  const late = { name: 'PeerError', code: 'unreachable', message: /no answer in time/ };
  await assert.rejects(targetAt(t, endpoint, { deadline: 60 }).offer(OFFER), late);
  await assert.rejects(targetAt(t, 'http://127.0.0.1:1').offer(OFFER), { name: 'PeerError', code: 'unreachable' });
});

test('an address that users may not name is not dialled', async (t) => {
  const { endpoint, requests } = await listen(t, () => ({ status: 200 }));
  const forbidden = { name: 'PeerError', code: 'unreachable', message: /OSCAR_PEER_NETWORKS/ };
  await assert.rejects(targetAt(t, endpoint, { networks: [] }).offer(OFFER), forbidden);
  const leads = targetAt(t, endpoint.replace('127.0.0.1', 'b.lab'), {
    networks: [],
    resolve: (_host, found) => found(null, [{ address: '127.0.0.1', family: 4 }]),
  });
  await assert.rejects(leads.offer(OFFER), forbidden);
  assert.equal(requests.length, 0);
});

test('endpoint: it supports no further requests', async (t) => {
  const target = targetAt(t, 'http://127.0.0.1:1');
  await target.stop();
  await assert.rejects(target.status(), { name: 'PeerError' });
  await assert.rejects(Array.fromAsync(target.logs()), { name: 'PeerError' });
});
