import * as kind from '../kinds/single.ts';
import { BACKENDS, type Settings } from './setting.ts';

export const cluster = {
  backend: {
    name: 'OSCAR_BACKEND',
    kind: kind.oneOf(...BACKENDS),
    default: 'local',
    meaning: 'Where services and jobs run: on this machine, or in the Kubernetes cluster of the manager.',
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
    unset: 'none; required if other clusters connect to this one',
    meaning: 'The URL at which users and other clusters reach this manager.',
  },
  name: {
    name: 'OSCAR_NAME',
    kind: kind.label,
    default: 'oscar',
    meaning:
      "The name of this manager. It is the owner of the administrator's buckets, and the name of its Kubernetes Service.",
  },
} as const satisfies Settings;
