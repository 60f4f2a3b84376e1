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
      'The clusters this one knows. They count before what a definition says about the same id. ' +
      'See [below](#clusters).',
  },
  reconcileIntervalSeconds: {
    name: 'OSCAR_RECONCILE_INTERVAL',
    kind: kind.seconds,
    default: '60',
    meaning: 'How often the members of federations are looked at, so that what went wrong there is put right.',
  },
  maxMembers: {
    name: 'OSCAR_MAX_MEMBERS',
    kind: kind.members,
    default: '100',
    meaning: 'The most members that one federation may have.',
  },
  grantWarnDays: {
    name: 'OSCAR_GRANT_WARN_DAYS',
    kind: kind.count,
    default: '30',
    meaning: 'After how many days a federation shows that its refresh token is old.',
  },
  leaseSeconds: {
    name: 'OSCAR_LEASE_SECONDS',
    kind: kind.seconds,
    default: '90',
    meaning:
      'How long another cluster may be silent about a job that it runs for this one. It speaks three times in it.',
  },
  leaseGraceSeconds: {
    name: 'OSCAR_LEASE_GRACE_SECONDS',
    kind: kind.secondsOrNone,
    default: '60',
    meaning: 'How much longer it is waited for before the job is given to somebody else.',
  },
  peerNetworks: {
    name: 'OSCAR_PEER_NETWORKS',
    kind: networks,
    default: '',
    meaning:
      'Private networks that definitions may point to. Otherwise they may name registered clusters and, over https, ' +
      'public addresses.',
  },
} as const satisfies Settings;
