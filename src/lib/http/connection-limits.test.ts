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
  const server = createServer((_request, response) => void response.end('served'));
  limitConnections(server, { total: 100, perAddress: 100, proxies: [], ...limits });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const open = (localAddress = '127.0.0.1') => connect({ port, host: '127.0.0.1', localAddress });
  const ask = async (localAddress?: string) => {
    const socket = open(localAddress);
    socket.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    const [head = ''] = (await text(socket).catch(() => 'HTTP/1.1 503 reset')).split('\r\n');
    return head.split(' ')[1];
  };
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { open, ask, [Symbol.dispose]: close };
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
