import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';
import { listOf, refusedSetting, type SettingKind } from './kind.ts';
import { port } from './single.ts';

/** The address of a server. An IPv6 host has no brackets, as `listen` expects. */
export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

const FORM = /^(?:\[(?<v6>[^\]]+)\]|(?<name>[A-Za-z0-9.-]+))(?::(?<port>\d+))?$/;
const ACCEPTS = '`host` or `host:port`, an IPv6 address in brackets; port 0 is any free one';

/** An address to listen on. Its default port is the value of another setting. */
export function listenAddress(portVariable: string): SettingKind<ListenAddress> {
  return {
    accepts: ACCEPTS,
    parse(raw, context) {
      const given = typeof raw === 'string' ? FORM.exec(raw.trim())?.groups : undefined;
      const host = given?.['name'] ?? given?.['v6'] ?? '';
      if (!given || (given['v6'] ? !isIPv6(host) : !isHost(host))) return refusedSetting(raw, ACCEPTS);
      if (given['port'] === undefined) {
        const usual = context.valueOf(portVariable);
        return typeof usual === 'number' ? { value: { host, port: usual } } : { problems: [] };
      }
      if (Number(given['port']) === 0) return { value: { host, port: 0 } };
      const parsed = port.parse(given['port'], context);
      return 'value' in parsed ? { value: { host, port: parsed.value } } : refusedSetting(raw, ACCEPTS);
    },
  };
}

/** Rejects `10.0.0.256`: digits and dots that are not an IPv4 address are a typing error, not a host name. */
const isHost = (text: string) => isIPv4(text) || (!/^[\d.]+$/.test(text) && /^[A-Za-z0-9]/.test(text));

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Whether only this machine can reach the host. The only name that counts is `localhost`. */
export function isLoopback(host: string): boolean {
  const family = isIP(host);
  if (family === 0) return host.toLowerCase() === 'localhost';
  return loopback.check(host, family === 4 ? 'ipv4' : 'ipv6');
}

export interface NetworkSetting {
  readonly address: string;
  readonly prefix: number;
  readonly family: 'ipv4' | 'ipv6';
}

export const networks = listOf('networks such as `10.0.0.0/8` or `fd00::/8`, separated by commas', readNetwork);

export const addressesOrNetworks = listOf(
  'addresses or networks such as `10.0.0.7` or `10.0.0.0/8`, separated by commas',
  (text) => readNetwork(isIP(text) === 0 ? text : `${text}/${isIP(text) === 4 ? 32 : 128}`),
);

function readNetwork(text: string): NetworkSetting | undefined {
  const [, address = '', digits] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const family = isIP(address);
  const prefix = Number(digits);
  if (family === 0 || prefix > (family === 4 ? 32 : 128)) return undefined;
  return { address, prefix, family: family === 4 ? 'ipv4' : 'ipv6' };
}
