import { clustersSetting } from '../kinds/clusters.ts';
import { networks } from '../kinds/network.ts';
import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const federation = {
  clusters: {
    name: 'OSCAR_CLUSTERS',
    kind: clustersSetting,
    default: '{}',
    meaning:
      'The clusters that this one knows. They take precedence over clusters with the same id in a definition. ' +
      'See [below](#clusters).',
  },
  reconcileIntervalSeconds: {
    name: 'OSCAR_RECONCILE_INTERVAL',
    kind: kind.seconds,
    default: '60',
    meaning: 'How often the manager checks the members of federations and repairs them.',
  },
  maxMembers: {
    name: 'OSCAR_MAX_MEMBERS',
    kind: kind.members,
    default: '100',
    meaning: 'The maximum number of members of a federation.',
  },
  hostedShare: {
    name: 'OSCAR_HOSTED_SHARE',
    kind: kind.percent,
    default: '50',
    meaning:
      'When jobs of this cluster and jobs of other clusters wait for room here: how many of 100 starts are for those of other ' +
      'clusters. With 0 they start only when no job of this cluster waits.',
  },
  originWeights: {
    name: 'OSCAR_ORIGIN_WEIGHTS',
    kind: kind.originWeights,
    default: '',
    meaning:
      'The weights of the clusters that send jobs here, which divide `OSCAR_HOSTED_SHARE` among them: `cluster-a=3,cluster-b=1`. A ' +
      'cluster that is not named has 1.',
  },
  grantWarnDays: {
    name: 'OSCAR_GRANT_WARN_DAYS',
    kind: kind.count,
    default: '30',
    meaning: 'After how many days the status of a federation warns that its refresh token is old.',
  },
  leaseSeconds: {
    name: 'OSCAR_LEASE_SECONDS',
    kind: kind.seconds,
    default: '90',
    meaning:
      'How long another cluster may be silent about a job that it runs for this one. It reports three times in this period.',
  },
  leaseGraceSeconds: {
    name: 'OSCAR_LEASE_GRACE_SECONDS',
    kind: kind.secondsOrNone,
    default: '60',
    meaning: 'How much longer the manager waits after that before it offers the job to another member.',
  },
  peerNetworks: {
    name: 'OSCAR_PEER_NETWORKS',
    kind: networks,
    default: '',
    meaning:
      'Private networks to which addresses in definitions may point. Without them, definitions may name registered clusters ' +
      'and public https addresses only.',
  },
} as const satisfies Settings;
