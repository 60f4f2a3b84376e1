import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

/** The quota that a user has at first; afterwards the operator changes it in the user's ClusterQueue. */
export const kueue = {
  kueueEnable: {
    name: 'KUEUE_ENABLE',
    kind: kind.flag,
    default: 'false',
    meaning:
      'Let Kueue decide when jobs of users may start, by a quota for each of them. It must be installed; needs ' +
      '`OSCAR_BACKEND=kubernetes`, and Kubernetes 1.32 or later.',
  },
  kueueCpuMillicores: {
    name: 'KUEUE_DEFAULT_CPU',
    kind: kind.cpu,
    default: '2',
    meaning: 'How much CPU the jobs of a user whose queue is made may take together.',
  },
  kueueMemoryBytes: {
    name: 'KUEUE_DEFAULT_MEMORY',
    kind: kind.memory,
    default: '2Gi',
    meaning: 'How much memory.',
  },
  kueueGpus: {
    name: 'KUEUE_DEFAULT_GPU',
    kind: kind.countOrNone,
    default: '0',
    meaning: 'How many GPUs.',
  },
  kueueEphemeralBytes: {
    name: 'KUEUE_DEFAULT_EPHEMERAL_STORAGE',
    kind: kind.memory,
    default: '1Gi',
    meaning: 'How much local disk, of services that ask for some (`ephemeral_storage_request`).',
  },
  kueueFlavor: {
    name: 'KUEUE_DEFAULT_FLAVOR',
    kind: kind.objectName,
    default: 'oscar-default-flavor',
    meaning: 'The ResourceFlavor of these quotas. Made, unless it is there.',
  },
} as const satisfies Settings;
