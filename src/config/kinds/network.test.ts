import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLoopback, listenAddress, networks } from './network.ts';

const listen = listenAddress('OSCAR_SERVICE_PORT');
const context = { files: () => '', valueOf: () => 8080 };

const addresses = [
  { name: 'an address without a port uses that of the other setting', text: '0.0.0.0', host: '0.0.0.0', port: 8080 },
  { name: 'an address may have a port', text: '127.0.0.1:9090', host: '127.0.0.1', port: 9090 },
  { name: 'a name is an address', text: 'oscar.example.org:80', host: 'oscar.example.org', port: 80 },
  { name: 'an IPv6 address is in brackets', text: '[::1]', host: '::1', port: 8080 },
  { name: 'an IPv6 address may have a port', text: '[fd00::1]:9090', host: 'fd00::1', port: 9090 },
  { name: 'port 0 is any free port', text: 'localhost:0', host: 'localhost', port: 0 },
];
for (const { name, text, host, port } of addresses) {
  test(`listen address: ${name}`, () => assert.deepEqual(listen.parse(text, context), { value: { host, port } }));
}

for (const text of [
  '::1',
  '[127.0.0.1]',
  '[::1',
  ':8080',
  '10.0.0.256',
  '1.2.3',
  'a:b',
  'a:65536',
  'http://a',
  '-a',
  'a b',
]) {
  test(`listen address: ${text} is rejected`, () => assert.ok('problems' in listen.parse(text, context)));
}

test('listen address: no second problem is reported if the port setting is invalid', () => {
  assert.deepEqual(listen.parse('0.0.0.0', { files: () => '', valueOf: () => undefined }), { problems: [] });
});

test('loopback: only addresses that other machines cannot reach', () => {
  for (const host of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1', 'localhost', 'LOCALHOST']) {
    assert.equal(isLoopback(host), true, host);
  }
  for (const host of ['0.0.0.0', '::', '10.0.0.1', '::ffff:10.0.0.1', 'example.org', 'localhost.example.org']) {
    assert.equal(isLoopback(host), false, host);
  }
});

test('networks: an address and a prefix length', () => {
  assert.deepEqual(networks.parse('10.0.0.0/8, fd00::/8', context), {
    value: [
      { address: '10.0.0.0', prefix: 8, family: 'ipv4' },
      { address: 'fd00::', prefix: 8, family: 'ipv6' },
    ],
  });
  for (const text of ['10.0.0.0', '10.0.0.0/33', 'fd00::/129', '10.0.0/8', 'example.org/8', '10.0.0.0/-1']) {
    assert.ok('problems' in networks.parse(text, context), text);
  }
});
