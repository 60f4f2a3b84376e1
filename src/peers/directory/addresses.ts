import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { Config } from '../../config/index.ts';
import { allowedAddresses } from '../../lib/http/index.ts';
import { isSlash, trimEnd } from '../../lib/trim.ts';
import type { DefinedCluster } from '../../model/service/index.ts';
import type { PeerAddress } from '../peer.ts';

export interface KnownClusters {
  /** Clusters that the operator vouches for (`OSCAR_CLUSTERS`). */
  readonly registered: Config['clusters'];
  /** Private networks that definitions may point to (`OSCAR_PEER_NETWORKS`). */
  readonly networks: Config['peerNetworks'];
  /** Is this endpoint the manager itself? Then it is not dialled, and the rules for addresses do not apply. */
  readonly isOwn: (endpoint: string) => boolean;
}

export type Resolved =
  | { readonly address: PeerAddress }
  /** `unknown`: neither the operator nor the definition names the cluster. */
  | { readonly problem: string; readonly unknown?: true };

/**
 * The address of a cluster (docs/peer-protocol.md#which-addresses-are-dialled): from the operator's settings, otherwise from
 * the definition.
 */
export function resolveCluster(
  clusterId: string,
  clusters: Readonly<Record<string, Pick<DefinedCluster, 'endpoint' | 'ssl_verify'>>> | undefined,
  known: KnownClusters,
): Resolved {
  const registered = known.registered.get(clusterId);
  if (registered) {
    const { endpoint, sslVerify: verify, ca, kind } = registered;
    return { address: { clusterId, endpoint, verify, ...(ca !== undefined && { ca }), guarded: false, kind } };
  }
  const named = clusters && Object.hasOwn(clusters, clusterId) ? clusters[clusterId] : undefined;
  if (!named) {
    const problem = `cluster "${clusterId}" is unknown: name it under clusters, or ask the operator to register it`;
    return { problem, unknown: true };
  }
  const why = endpointProblem(named.endpoint, known);
  if (why !== undefined) return { problem: `clusters.${clusterId}.endpoint: ${why}` };
  const endpoint = normalizeEndpoint(named.endpoint) ?? named.endpoint;
  return { address: { clusterId, endpoint, verify: named.ssl_verify, guarded: true, kind: 'oscar' } };
}

/** Checks what is known before dialling. Host names are resolved when they are dialled, and their addresses are checked then. */
function endpointProblem(endpoint: string, { networks, isOwn }: KnownClusters): string | undefined {
  const url = URL.parse(endpoint);
  if (!url || !/^https?:$/.test(url.protocol)) return 'must be an http or https URL';
  if (url.username !== '' || url.password !== '')
    return 'must not hold a user or password: write auth_user and auth_password';
  if (/[?#]/.test(endpoint)) return 'must end before any "?" or "#"';
  if (isOwn(endpoint)) return undefined;
  const over = url.protocol === 'https:' ? 'https' : 'http';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0 && !ruleFor(networks)(host, over)) {
    return ruleFor(networks)(host, 'https') ? OVER_HTTPS : `${host} is not public: ${ASK}`;
  }
  return over === 'http' && networks.length === 0 ? OVER_HTTPS : undefined;
}

type AddressRule = ReturnType<typeof allowedAddresses>;

const rules = new WeakMap<KnownClusters['networks'], AddressRule>();

/** Cached per setting, because addresses are checked for every request to another manager. */
function ruleFor(networks: KnownClusters['networks']): AddressRule {
  const rule = rules.get(networks) ?? allowedAddresses(networks);
  rules.set(networks, rule);
  return rule;
}

const ASK = 'ask the operator to register the cluster, or to add its network to OSCAR_PEER_NETWORKS';
const OVER_HTTPS = 'must begin with https://';

export interface OwnAddress {
  /** The public address of this manager (`OSCAR_ENDPOINT`). */
  readonly endpoint?: string;
  /** The listening sockets, empty before the server listens. IPv6 addresses have no brackets. */
  readonly listening: () => readonly { readonly host: string; readonly port: number }[];
  /** The addresses of this machine. */
  readonly addresses?: () => readonly string[];
}

/** Tests whether an endpoint is this manager, which is not dialled. Host names that resolve to this machine are not recognized. */
export function ownAddress(own: OwnAddress): (endpoint: string) => boolean {
  const named = own.endpoint === undefined ? undefined : normalizeEndpoint(own.endpoint);
  const addresses = own.addresses ?? localAddresses;
  return (endpoint) => {
    const normal = normalizeEndpoint(endpoint);
    if (normal === undefined) return false;
    if (normal === named) return true;
    const { protocol, port, pathname, hostname } = new URL(normal);
    if (protocol !== 'http:' || pathname !== '/') return false;
    const listens = own.listening().filter((each) => each.port === Number(port || 80));
    const host = normalizeHost(hostname);
    return listens.some((each) => isReachedBy(each.host, host, addresses));
  };
}

/** Lower case, no default port, no slash at the end. Undefined if it is not an http or https URL. */
export function normalizeEndpoint(endpoint: string): string | undefined {
  const url = URL.parse(endpoint);
  if (!url || !/^https?:$/.test(url.protocol)) return undefined;
  const host = url.host.replace(/\.(?=:|$)/, '');
  return `${url.protocol}//${host}${trimEnd(url.pathname, isSlash)}`;
}

/** Does a socket that listens on this address receive what is sent to that host? */
function isReachedBy(listening: string, host: string, addresses: () => readonly string[]): boolean {
  const here = normalizeHost(listening.toLowerCase());
  if (here === host) return true;
  if (here === '0.0.0.0' || here === '::')
    return isLoopback(host) || addresses().some((each) => normalizeHost(each) === host);
  return here === 'localhost' ? isLoopback(host) : host === 'localhost' && isLoopback(here);
}

const isLoopback = (host: string) => host === 'localhost' || host === '::1' || /^127(\.\d+){3}$/.test(host);

/** Removes the brackets of IPv6 addresses, and writes IPv4-mapped IPv6 addresses as IPv4. */
function normalizeHost(host: string): string {
  const plain = host.replace(/^\[|\]$/g, '');
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(plain) ?? [];
  if (high === undefined || low === undefined) return plain;
  return [high, low]
    .map((group) => Number.parseInt(group, 16))
    .flatMap((group) => [group >> 8, group & 0xff])
    .join('.');
}

const localAddresses = () =>
  Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address.toLowerCase()));
