import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { normalizeEndpoint, type OwnAddress, ownAddress } from './addresses.ts';

const at = (host: string, port = 8080): OwnAddress => ({
  endpoint: 'https://oscar.example/a',
  listening: () => [{ host, port }],
  addresses: () => ['10.0.0.7', 'fd00::7', '127.0.0.1'],
});

const cases: [string, OwnAddress, string, boolean][] = [
  ['the endpoint as it stands', at('127.0.0.1'), 'https://oscar.example/a', true],
  ['the endpoint in another spelling', at('127.0.0.1'), 'HTTPS://OSCAR.example.:443/a//', true],
  ['the endpoint over http', at('127.0.0.1'), 'http://oscar.example/a', false],
  ['another path there', at('127.0.0.1'), 'https://oscar.example/b', false],
  ['another port there', at('127.0.0.1'), 'https://oscar.example:8443/a', false],
  ['where it listens', at('127.0.0.1'), 'http://127.0.0.1:8080/', true],
  ['where it listens, over https', at('127.0.0.1'), 'https://127.0.0.1:8080', false],
  ['where it listens, with a path', at('127.0.0.1'), 'http://127.0.0.1:8080/x', false],
  ['where it listens, as a number', at('127.0.0.1'), 'http://2130706433:8080', true],
  ['where it listens, in the IPv6 way', at('127.0.0.1'), 'http://[::ffff:127.0.0.1]:8080', true],
  ['localhost of one that listens there', at('127.0.0.1'), 'http://localhost:8080', true],
  ['another port of this machine', at('127.0.0.1'), 'http://127.0.0.1:8081', false],
  ['another address of this machine, where it does not listen', at('127.0.0.1'), 'http://10.0.0.7:8080', false],
  ['the other loopback, where it does not listen', at('127.0.0.1'), 'http://[::1]:8080', false],
  ['an address of this machine, where it listens on all', at('0.0.0.0'), 'http://10.0.0.7:8080', true],
  ['IPv6 of this machine, where it listens on all', at('::'), 'http://[fd00::7]:8080', true],
  ['loopback, where it listens on all', at('0.0.0.0'), 'http://localhost:8080', true],
  ['another machine, where it listens on all', at('0.0.0.0'), 'http://10.0.0.8:8080', false],
  ['the usual port', at('::1', 80), 'http://[::1]', true],
  ['a name that it listens on', at('localhost'), 'http://127.0.0.1:8080', true],
  ['a name that may lead anywhere', at('0.0.0.0'), 'http://oscar.lab:8080', false],
  ['what is no address', at('0.0.0.0'), 'localhost:8080', false],
];
for (const [what, own, endpoint, expected] of cases) {
  test(`${what} is ${expected ? 'this manager' : 'another manager'}: ${endpoint}`, () => {
    assert.equal(ownAddress(own)(endpoint), expected);
  });
}

test('own address: before it listens, and without an endpoint, no address is its own', () => {
  assert.equal(ownAddress({ listening: () => [] })('http://127.0.0.1:8080'), false);
});

test('unless told otherwise it knows the addresses of its network cards', () => {
  const isOwn = ownAddress({ listening: () => [{ host: '0.0.0.0', port: 8080 }] });
  const cards = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  for (const { address, family } of cards) {
    assert.equal(isOwn(`http://${family === 'IPv6' ? `[${address}]` : address}:8080`), true, address);
  }
  assert.equal(isOwn('http://192.0.2.1:8080'), false);
});

test('an endpoint has one spelling', () => {
  assert.equal(normalizeEndpoint('HTTP://B.example.:80/x/'), 'http://b.example/x');
  assert.equal(normalizeEndpoint('https://[FD00::0:7]:8443'), 'https://[fd00::7]:8443');
  assert.equal(normalizeEndpoint('ftp://b.example'), undefined);
  assert.equal(normalizeEndpoint(''), undefined);
});
