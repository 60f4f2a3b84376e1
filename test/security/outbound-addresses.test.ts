import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { allowedAddresses, type Network } from '../../src/lib/http/allowed-address.ts';

const publicOnly = over('https');

/** The rule for one scheme. */
function over(scheme: 'http' | 'https', networks: readonly Network[] = []) {
  const rule = allowedAddresses(networks);
  return (address: string) => rule(address, scheme);
}

const allowed = [
  '1.1.1.1',
  '100.63.255.255',
  '100.128.0.1',
  '172.15.0.1',
  '172.32.0.1',
  '192.0.1.1',
  '223.255.255.255',
  '2001:4860:4860::8888',
  '2606:4700::1111',
  '::ffff:8.8.8.8',
  '0:0:0:0:0:ffff:808:808',
  '64:ff9b::8.8.8.8',
  '64:ff9b::808:0',
];
for (const address of allowed) {
  test(`${address} is public`, () => assert.equal(publicOnly(address), true));
}

const refused: [string, string][] = [
  ['unspecified', '0.0.0.0'],
  ['this network', '0.1.2.3'],
  ['private', '10.0.0.5'],
  ['private', '172.16.0.1'],
  ['private', '172.31.255.255'],
  ['private', '192.168.1.1'],
  ['carrier-grade NAT', '100.64.0.1'],
  ['loopback', '127.0.0.1'],
  ['loopback', '127.255.255.254'],
  ['link-local', '169.254.1.1'],
  ['the metadata service', '169.254.169.254'],
  ['documentation', '192.0.2.1'],
  ['documentation', '198.51.100.7'],
  ['documentation', '203.0.113.7'],
  ['benchmarks', '198.19.0.1'],
  ['multicast', '224.0.0.1'],
  ['reserved', '240.0.0.1'],
  ['broadcast', '255.255.255.255'],
  ['unspecified', '::'],
  ['loopback', '::1'],
  ['loopback, written in full', '0:0:0:0:0:0:0:1'],
  ['link-local', 'fe80::1'],
  ['link-local with a zone', 'fe80::1%lo'],
  ['anything with a zone', '2001:4860:4860::8888%lo'],
  ['site-local', 'fec0::1'],
  ['unique local', 'fd00::1'],
  ['the metadata service of IPv6', 'fd00:ec2::254'],
  ['multicast', 'ff02::1'],
  ['documentation', '2001:db8::1'],
  ['documentation', '3fff::1'],
  ['discard', '100::1'],
  ['IPv4-mapped loopback', '::ffff:127.0.0.1'],
  ['IPv4-mapped loopback in hexadecimal', '::ffff:7f00:1'],
  ['IPv4-mapped unspecified', '::ffff:0:0'],
  ['IPv4-mapped metadata service', '::ffff:a9fe:a9fe'],
  ['IPv4-compatible loopback', '::127.0.0.1'],
  ['IPv4-compatible private', '::10.0.0.5'],
  ['IPv4-translated private', '::ffff:0:10.0.0.5'],
  ['NAT64 of a private address', '64:ff9b::10.0.0.5'],
  ['NAT64 of loopback', '64:ff9b::7f00:1'],
  ['NAT64 of the unspecified', '64:ff9b::'],
  ['NAT64 of a low address', '64:ff9b::1'],
  ['NAT64 with a local prefix', '64:ff9b:1::808:808'],
  ['beside NAT64', '64:ff9b::1:808:808'],
  ['6to4 of a private address', '2002:a00:5::1'],
  ['Teredo', '2001:0:4136:e378:8000:63bf:3fff:fdd2'],
  ['what nobody has been given', '4000::1'],
  ['a name', 'example.org'],
  ['nothing', ''],
];
for (const [what, address] of refused) {
  test(`${what} is not public: ${address}`, () => assert.equal(publicOnly(address), false));
}

const v4 = (address: string, prefix: number): Network => ({ address, prefix, family: 'ipv4' });
const v6 = (address: string, prefix: number): Network => ({ address, prefix, family: 'ipv6' });

test('a network of the operator is allowed, and its neighbours are not', () => {
  const may = over('http', [v4('10.1.0.0', 16), v6('fd00:1::', 32)]);
  const answers = ['10.1.2.3', '::ffff:10.1.2.3', 'fd00:1::5', '10.2.0.1', 'fd00:2::5', '127.0.0.1', '::1'].map(may);
  assert.deepEqual(answers, [true, true, true, false, false, false, false]);
});

test('a public address is not for keys and files that everybody on the way could read', () => {
  assert.deepEqual(['1.1.1.1', '2606:4700::1111', '127.0.0.1'].map(over('http')), [false, false, false]);
});

test('a network of IPv4-mapped addresses is the network of those addresses', () => {
  const may = over('https', [v6('::ffff:10.1.0.0', 112)]);
  assert.deepEqual(['10.1.2.3', '::ffff:a01:203', '10.2.0.1'].map(may), [true, true, false]);
});

test('all of IPv6 says nothing about IPv4', () => {
  const may = over('https', [v6('::', 0)]);
  assert.deepEqual(['::1', 'fe80::1', '127.0.0.1', '::ffff:127.0.0.1'].map(may), [true, true, false, false]);
});

test('a network of IPv4 does not open its translation by NAT64, which leads elsewhere', () => {
  assert.equal(over('https', [v4('10.0.0.0', 8)])('64:ff9b::10.0.0.5'), false);
});

test('an IPv4 address and its IPv4-mapped form are always decided alike', () => {
  const octet = fc.oneof(fc.nat(255), fc.constantFrom(0, 10, 100, 127, 169, 172, 192, 224, 254, 255));
  const octets = fc.tuple(octet, octet, octet, octet);
  const networks = fc.array(
    fc.record({ address: fc.ipV4(), prefix: fc.integer({ min: 4, max: 32 }), family: fc.constant('ipv4' as const) }),
    { maxLength: 3 },
  );
  fc.assert(
    fc.property(octets, networks, ([a, b, c, d], given) => {
      const may = over('https', given);
      const plain = `${a}.${b}.${c}.${d}`;
      const hex = `::ffff:${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
      assert.deepEqual([may(`::ffff:${plain}`), may(hex)], [may(plain), may(plain)]);
    }),
  );
});
