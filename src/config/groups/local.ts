import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const local = {
  dataDir: {
    name: 'OSCAR_DATA_DIR',
    kind: kind.text,
    default: './.oscar',
    meaning: 'The directory that holds everything: services, jobs, objects and the secrets made at the first start.',
  },
  localCpuMillicores: {
    name: 'OSCAR_LOCAL_CPU',
    kind: kind.cpu,
    unset: 'all of this machine',
    meaning: 'How much CPU jobs get together. Those that do not fit wait, or go elsewhere.',
  },
  localMemoryBytes: {
    name: 'OSCAR_LOCAL_MEMORY',
    kind: kind.memory,
    unset: 'all of this machine',
    meaning: 'How much memory jobs get together.',
  },
  localRuntime: {
    name: 'OSCAR_LOCAL_RUNTIME',
    kind: kind.oneOf('auto', 'docker', 'process'),
    default: 'auto',
    meaning:
      'How scripts run: in containers of their image (`docker`, which may be Podman), or as plain processes of this ' +
      'machine (`process`); `auto` is containers if Docker answers.',
  },
  localUid: {
    name: 'OSCAR_LOCAL_UID',
    kind: kind.count,
    default: '60600',
    meaning:
      'With plain processes and a manager that is root: the first of 500 user ids that scripts run under, one for ' +
      'each that runs. Nobody else may have them: whatever they run is ended with a job.',
  },
  localDiskBytes: {
    name: 'OSCAR_LOCAL_DISK',
    kind: kind.memory,
    default: '10Gi',
    meaning: 'How much disk the files of one job may take.',
  },
  localAllowRemote: {
    name: 'OSCAR_LOCAL_ALLOW_REMOTE',
    kind: kind.flag,
    default: 'false',
    meaning:
      'Allow `OSCAR_LISTEN` to be an address that other machines reach. **Whoever may create a service then runs ' +
      'programs on this machine**, as processes of the manager.',
  },
} as const satisfies Settings;
