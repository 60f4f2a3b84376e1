import { isIP } from 'node:net';
import type { Config } from '../../config.ts';
import { allowedAddresses } from '../../outbound/index.ts';
import type { Cluster } from '../../service/schema.ts';
import { normalEndpoint } from './own-address.ts';
import type { PeerAddress } from './peer.ts';

export interface KnownClusters {
  /** Clusters that the operator vouches for (`OSCAR_CLUSTERS`). */
  readonly registered: Config['clusters'];
  /** Private networks that definitions may point to (`OSCAR_PEER_NETWORKS`). */
  readonly networks: Config['peerNetworks'];
  /** Is this endpoint the manager itself? Then nobody is dialled, and any spelling of it will do. */
  readonly isOwn: (endpoint: string) => boolean;
}

export type Resolved = { readonly address: PeerAddress } | { readonly problem: string };

/** Where a cluster is (design §6): what the operator says, otherwise what the definition says. */
export function resolveCluster(
  clusterId: string,
  clusters: Readonly<Record<string, Pick<Cluster, 'endpoint' | 'ssl_verify'>>> | undefined,
  known: KnownClusters,
): Resolved {
  const registered = known.registered.get(clusterId);
  if (registered) {
    const { endpoint, sslVerify: verify, ca, kind } = registered;
    return { address: { clusterId, endpoint, verify, ...(ca !== undefined && { ca }), guarded: false, kind } };
  }
  const named = clusters && Object.hasOwn(clusters, clusterId) ? clusters[clusterId] : undefined;
  if (!named) {
    return { problem: `cluster "${clusterId}" is unknown: name it under clusters, or ask the operator to register it` };
  }
  const why = endpointProblem(named.endpoint, known);
  if (why !== undefined) return { problem: `clusters.${clusterId}.endpoint: ${why}` };
  const endpoint = normalEndpoint(named.endpoint) ?? named.endpoint;
  return { address: { clusterId, endpoint, verify: named.ssl_verify, guarded: true, kind: 'oscar' } };
}

/** What can be said before anybody is dialled; names are looked up only then, and checked by the address they lead to. */
function endpointProblem(endpoint: string, { networks, isOwn }: KnownClusters): string | undefined {
  const url = URL.parse(endpoint);
  if (!url || !/^https?:$/.test(url.protocol)) return 'must be an http or https URL';
  if (url.username !== '' || url.password !== '')
    return 'must not hold a user or password: write auth_user and auth_password';
  if (/[?#]/.test(endpoint)) return 'must end before any "?" or "#"';
  if (isOwn(endpoint)) return undefined;
  const over = url.protocol === 'https:' ? 'https' : 'http';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (isIP(host) !== 0 && !ruleOf(networks)(host, over)) {
    return ruleOf(networks)(host, 'https') ? OVER_HTTPS : `${host} is not public: ${ASK}`;
  }
  return over === 'http' && networks.length === 0 ? OVER_HTTPS : undefined;
}

type AddressRule = ReturnType<typeof allowedAddresses>;

const rules = new WeakMap<KnownClusters['networks'], AddressRule>();

/** Made once for what the operator has set: addresses are looked at with every word to another manager. */
function ruleOf(networks: KnownClusters['networks']): AddressRule {
  const rule = rules.get(networks) ?? allowedAddresses(networks);
  rules.set(networks, rule);
  return rule;
}

const ASK = 'ask the operator to register the cluster, or to add its network to OSCAR_PEER_NETWORKS';
const OVER_HTTPS = 'must begin with https://';
