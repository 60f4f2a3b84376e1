import { BlockList, isIP, isIPv4 } from 'node:net';

export interface Network {
  readonly address: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

/** What is not the public Internet, by the IANA special-purpose registries (RFC 6890 and what came after it). */
const NOT_PUBLIC_V4 = [
  '0.0.0.0/8', // "this network": Linux dials itself
  '10.0.0.0/8',
  '100.64.0.0/10', // carrier-grade NAT
  '127.0.0.0/8',
  '169.254.0.0/16', // link-local, and with it the metadata services of clouds
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24', // documentation
  '192.88.99.0/24', // 6to4 relays
  '192.168.0.0/16',
  '198.18.0.0/15', // benchmarks
  '198.51.100.0/24', // documentation
  '203.0.113.0/24', // documentation
  '224.0.0.0/4', // multicast
  '240.0.0.0/4', // reserved, broadcast
];

/** The only IPv6 range that is assigned to the public. Every other range is rejected, including future ones. */
const GLOBAL_V6 = ['2000::/3'];

/** Within it: addresses that carry an IPv4 address somewhere else, and documentation. */
const NOT_PUBLIC_V6 = [
  '2001::/23', // Teredo, ORCHID, benchmarks
  '2001:db8::/32',
  '2002::/16', // 6to4
  '3fff::/20',
];

const notPublic = { ipv4: listOf(NOT_PUBLIC_V4), ipv6: listOf(NOT_PUBLIC_V6) };
const globalV6 = listOf(GLOBAL_V6);

/** May this address be dialled, with TLS or without? */
export type AddressRule = (address: string, over: 'http' | 'https') => boolean;

/**
 * May a user point us to this address? Public ones over https, and in the operator's networks all.
 *
 * @example
 * const allowed = allowedAddresses([{ address: '10.1.0.0', prefix: 16, family: 'ipv4' }]);
 * allowed('10.1.2.3', 'http');     // true
 * allowed('127.0.0.1', 'https');   // false
 */
export function allowedAddresses(networks: readonly Network[]): AddressRule {
  // One list per family: a list of both would let `::/0` count for IPv4 as well.
  const opened = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const network of networks.map(mappedNetwork)) {
    opened[network.family].addSubnet(network.address, network.prefix, network.family);
  }
  return (given, over) => {
    // A zone names a network card of this machine: nothing public has one.
    if (isIP(given) === 0 || given.includes('%')) return false;
    const address = isIPv4(given) ? given : (mappedV4(given) ?? given);
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    return opened[family].check(address, family) || (over === 'https' && isPublic(address));
  };
}

function isPublic(address: string): boolean {
  if (isIPv4(address)) return !notPublic.ipv4.check(address, 'ipv4');
  // Where there is only IPv6, the resolver writes every IPv4 address like this (RFC 6052).
  const translated = embeddedV4(address, '64:ff9b::');
  if (translated !== undefined) return isPublic(translated);
  return globalV6.check(address, 'ipv6') && !notPublic.ipv6.check(address, 'ipv6');
}

/** `::ffff:10.0.0.5` is dialled as 10.0.0.5. */
const mappedV4 = (address: string) => embeddedV4(address, '::ffff:');

/**
 * The IPv4 address in the last 32 bits after a prefix of 96. One below 0.1.0.0 may be written in one group; that is none
 * to be dialled in any case.
 */
function embeddedV4(address: string, prefix: string): string | undefined {
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  if (!canonical.startsWith(prefix)) return undefined;
  const groups = canonical.slice(prefix.length).split(':');
  if (groups.length !== 2) return undefined;
  return groups
    .map((group) => Number.parseInt(group, 16))
    .flatMap((group) => [group >> 8, group & 0xff])
    .join('.');
}

/** An operator may write a network of IPv4 addresses in the IPv6 way, too. */
function mappedNetwork(network: Network): Network {
  const address = network.family === 'ipv6' && network.prefix >= 96 ? mappedV4(network.address) : undefined;
  return address === undefined ? network : { address, prefix: network.prefix - 96, family: 'ipv4' };
}

function listOf(subnets: readonly string[]): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [address = '', prefix] = subnet.split('/');
    list.addSubnet(address, Number(prefix), isIPv4(address) ? 'ipv4' : 'ipv6');
  }
  return list;
}
