import { randomBytes, randomUUID } from 'node:crypto';
import { Secret } from '../../../lib/secret.ts';
import type { PeerAddress } from '../../../peers/index.ts';
import type { Coordination } from '../coordination.ts';
import {
  journalOf,
  ModelCluster,
  openPassage,
  ownServicesOf,
  type Passage,
  secretsOf,
  servicesOf,
} from './model-cluster.fixture.ts';
import { ModelManager, modelPeer } from './model-manager.fixture.ts';

export interface World {
  readonly cluster: ModelCluster;
  /** By cluster id. */
  readonly managers: ReadonlyMap<string, ModelManager>;
}

/** The address of any cluster of the world. */
const addressOf = (clusterId: string): PeerAddress => ({
  clusterId,
  endpoint: `https://${clusterId}.example`,
  verify: true,
  guarded: true,
  kind: 'oscar',
});

/** One process of the coordinator in a world. */
export function coordination(
  { cluster, managers }: World,
  passage: Passage = openPassage,
  more: Partial<Coordination> = {},
): Coordination {
  return {
    services: servicesOf(cluster, passage),
    secrets: secretsOf(cluster, passage),
    journal: journalOf(cluster, passage),
    own: ownServicesOf(cluster, passage),
    peers: { at: ({ clusterId }) => modelPeer(managers.get(clusterId), clusterId, passage) },
    resolve: (clusterId) =>
      managers.has(clusterId)
        ? { address: addressOf(clusterId) }
        : { problem: `cluster "${clusterId}" is unknown: name it under clusters`, unknown: true },
    isSelf: () => false,
    here: {
      clusterId: 'here',
      endpoint: 'https://here.example',
      instance: 'this-instance',
      issuers: {},
      store: { endpoint: 'https://store.here.example', verify: true, region: 'us-east-1' },
    },
    mostMembers: 100,
    now: Date.now,
    newUid: randomUUID,
    newKey: () => new Secret(randomBytes(32).toString('hex')),
    ...more,
  };
}

/** The same, where the managers of these clusters are written in Go. */
export function withGoManagers(deps: Coordination, ...clusterIds: string[]): Coordination {
  const resolve: Coordination['resolve'] = (id, clusters) => {
    const resolved = deps.resolve(id, clusters);
    if ('problem' in resolved || !clusterIds.includes(id)) return resolved;
    return { address: { ...resolved.address, kind: 'upstream' } };
  };
  return { ...deps, resolve };
}

export const worldOf = (...clusterIds: string[]): World => ({
  cluster: new ModelCluster(),
  managers: new Map(clusterIds.map((id) => [id, new ModelManager()])),
});

export const alice = {
  principal: { kind: 'user', uid: 'alice', name: 'Alice', groups: [], operator: false },
  credential: { kind: 'bearer', token: new Secret('access-token-of-alice') },
} as const;

/** A federated service whose members are on these clusters, each named after its own. */
export const federatedBody = (members: readonly string[], more: Record<string, unknown> = {}) => ({
  name: 'demo',
  image: 'busybox',
  script: 'true',
  environment: { secrets: { refresh_token: 'refresh-token', PASSWORD: 'pw' } },
  ...more,
  federation: { topology: 'star', ...(more['federation'] as object), members: members.map(memberOn) },
});

export const memberOn = (clusterId: string) => ({ cluster_id: clusterId, service_name: `demo-${clusterId}` });
