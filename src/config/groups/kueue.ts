import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

/** The initial quota of a user; afterwards the operator changes it in the user's ClusterQueue. */
export const kueue = {
  kueueEnable: {
    name: 'KUEUE_ENABLE',
    kind: kind.flag,
    default: 'false',
    meaning:
      'Let Kueue admit the jobs of users, with a quota for each user. Kueue must be installed. Needs ' +
      '`OSCAR_BACKEND=kubernetes`, and Kubernetes 1.32 or later.',
  },
  kueueCpuMillicores: {
    name: 'KUEUE_DEFAULT_CPU',
    kind: kind.cpu,
    default: '2',
    meaning: 'The CPU quota in the ClusterQueue of a new user, for all their jobs.',
  },
  kueueMemoryBytes: {
    name: 'KUEUE_DEFAULT_MEMORY',
    kind: kind.memory,
    default: '2Gi',
    meaning: 'The memory quota of a new user.',
  },
  kueueGpus: {
    name: 'KUEUE_DEFAULT_GPU',
    kind: kind.countOrNone,
    default: '0',
    meaning: 'The GPU quota of a new user.',
  },
  kueueEphemeralBytes: {
    name: 'KUEUE_DEFAULT_EPHEMERAL_STORAGE',
    kind: kind.memory,
    default: '1Gi',
    meaning: 'The local disk quota of a new user, for services with `ephemeral_storage_request`.',
  },
  kueueFlavor: {
    name: 'KUEUE_DEFAULT_FLAVOR',
    kind: kind.objectName,
    default: 'oscar-default-flavor',
    meaning: 'The ResourceFlavor of these quotas. The manager creates it if it does not exist.',
  },
} as const satisfies Settings;
