import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { eventually } from '../../ports/conformance/eventually.ts';
import { clientAddressFinder, limitConnections } from './connection-limits.ts';

const LOOPBACK = { address: '127.0.0.0', prefix: 8, family: 'ipv4' } as const;

async function listen(limits: Partial<Parameters<typeof limitConnections>[1]>) {
  const server = createServer((request, response) => {
    if (request.url === '/as-peer') limiter.recognizePeer(request.socket);
    response.end('served');
  });
  let time = 0;
  const limiter = limitConnections(server, { total: 100, perAddress: 100, proxies: [], ...limits }, () => time);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const open = (localAddress = '127.0.0.1') => connect({ port, host: '127.0.0.1', localAddress });
  const ask = async (localAddress?: string, path = '/') => {
    const socket = open(localAddress);
    socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`);
    const [head = ''] = (await text(socket).catch(() => 'HTTP/1.1 503 reset')).split('\r\n');
    return head.split(' ')[1];
  };
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  const wait = (ms: number) => {
    time += ms;
  };
  return { open, ask, wait, [Symbol.dispose]: close };
}

for (const [name, limits, sameAddress, otherAddress] of [
  ['one address', { perAddress: 2 }, '503', '200'],
  ['all addresses', { total: 2 }, '503', '503'],
  ['a trusted proxy, which has none of its own', { perAddress: 2, proxies: [LOOPBACK] }, '200', '200'],
] as const) {
  test(`connection limits: of ${name}`, async () => {
    using server = await listen(limits);
    const held = [server.open(), server.open()];
    await Promise.all(held.map((socket) => once(socket, 'connect')));
    await eventually(async () => assert.equal(await server.ask(), sameAddress));
    assert.equal(await server.ask('127.0.0.2'), otherAddress);
    for (const socket of held) socket.destroy();
    await eventually(async () => assert.equal(await server.ask(), '200'));
  });
}

test('connection limits: peers have their own, which other clients cannot use up', async () => {
  const PEER = '127.0.0.7';
  using server = await listen({ total: 2, peers: 1 });
  assert.equal(await server.ask(PEER, '/as-peer'), '200');
  const held = [server.open(), server.open()];
  await Promise.all(held.map((socket) => once(socket, 'connect')));
  await eventually(async () => assert.equal(await server.ask('127.0.0.2'), '503'));
  await eventually(async () => assert.equal(await server.ask(PEER), '200'));

  const ofPeer = server.open(PEER);
  await once(ofPeer, 'connect');
  await eventually(async () => assert.equal(await server.ask(PEER), '503', 'the limit of peers'));
  ofPeer.destroy();
  await eventually(async () => assert.equal(await server.ask(PEER), '200'));
  server.wait(11 * 60_000);
  await eventually(async () => assert.equal(await server.ask(PEER), '503', 'no peer any more'));
  for (const socket of held) socket.destroy();
});

test('connection limits: a connection on which a peer is recognized counts as one of a peer from then on', async () => {
  const PEER = '127.0.0.7';
  using server = await listen({ total: 1, peers: 1 });
  const peer = server.open(PEER);
  peer.write('GET /as-peer HTTP/1.1\r\nhost: x\r\n\r\n');
  await once(peer, 'data');
  assert.equal(await server.ask('127.0.0.2'), '200', 'the peer has left the only place of other clients');
  peer.destroy();
});

test('connection limits: nobody behind a trusted proxy is recognized as a peer', async () => {
  using server = await listen({ total: 1, peers: 1, proxies: [LOOPBACK] });
  await server.ask('127.0.0.7', '/as-peer');
  const held = server.open('127.0.0.7');
  await once(held, 'connect');
  await eventually(async () => assert.equal(await server.ask('127.0.0.7'), '503'));
  held.destroy();
});

test('connection limits: X-Forwarded-For counts only if a trusted proxy sent it, from the right', () => {
  const find = clientAddressFinder([LOOPBACK, { address: '10.0.0.0', prefix: 8, family: 'ipv4' }]);
  const cases: [string, string | undefined, string][] = [
    ['192.0.2.1', '198.51.100.1', '192.0.2.1'],
    ['127.0.0.1', undefined, '127.0.0.1'],
    ['::ffff:127.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['127.0.0.1', 'invented, 198.51.100.1, 10.1.2.3', '198.51.100.1'],
    ['127.0.0.1', '198.51.100.1, not an address', '127.0.0.1'],
    ['127.0.0.1', '10.0.0.1', '127.0.0.1'],
  ];
  for (const [remoteAddress, forwarded, expected] of cases) {
    const request = { socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } };
    assert.equal(find(request as unknown as IncomingMessage), expected, `${remoteAddress} ${forwarded}`);
  }
});
