import * as kind from '../kinds/single.ts';
import { BACKENDS, type Settings } from './setting.ts';

export const cluster = {
  backend: {
    name: 'OSCAR_BACKEND',
    kind: kind.oneOf(...BACKENDS),
    default: 'local',
    meaning: 'Where services and jobs live: on this machine, or in the Kubernetes cluster the manager runs in.',
  },
  clusterId: {
    name: 'OSCAR_CLUSTER_ID',
    kind: kind.clusterId,
    default: 'oscar-cluster',
    meaning: 'The id of this cluster in federations.',
  },
  endpoint: {
    name: 'OSCAR_ENDPOINT',
    kind: kind.url,
    unset: 'none; needed where other clusters are to reach this one',
    meaning: 'The address under which users and other clusters reach this manager.',
  },
  name: {
    name: 'OSCAR_NAME',
    kind: kind.label,
    default: 'oscar',
    meaning: 'The name of this manager: owner of the buckets of the administrator, and its service on Kubernetes.',
  },
} as const satisfies Settings;
