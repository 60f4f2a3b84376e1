import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const local = {
  dataDir: {
    name: 'OSCAR_DATA_DIR',
    kind: kind.text,
    default: './.oscar',
    meaning:
      'The directory for all data: services, jobs, objects and the secrets that are generated at the first start.',
  },
  localCpuMillicores: {
    name: 'OSCAR_LOCAL_CPU',
    kind: kind.cpu,
    unset: 'all of this machine',
    meaning: 'The CPU for all running jobs. Jobs that do not fit wait, or are delegated.',
  },
  localMemoryBytes: {
    name: 'OSCAR_LOCAL_MEMORY',
    kind: kind.memory,
    unset: 'all of this machine',
    meaning: 'The memory for all running jobs.',
  },
  localRuntime: {
    name: 'OSCAR_LOCAL_RUNTIME',
    kind: kind.oneOf('auto', 'docker', 'process'),
    default: 'auto',
    meaning:
      'How scripts run: in containers of their image (`docker`, which may be Podman), or as plain processes of this ' +
      'machine (`process`); `auto` uses containers if Docker is available.',
  },
  localUid: {
    name: 'OSCAR_LOCAL_UID',
    kind: kind.count,
    default: '60600',
    meaning:
      'With plain processes and a manager that runs as root: the first of 500 user ids for scripts, one for each running ' +
      'script. Do not use them for anything else: when a job ends, all processes of its user id are killed.',
  },
  localDiskBytes: {
    name: 'OSCAR_LOCAL_DISK',
    kind: kind.memory,
    default: '10Gi',
    meaning: 'How much disk the files of one job may use.',
  },
  diskFloorBytes: {
    name: 'OSCAR_DISK_FLOOR',
    kind: kind.sizeOrNone,
    unset: '1 % of the file system, between 256 MiB and 4 GiB, at most a tenth of it',
    meaning:
      'How much disk space is kept free below `OSCAR_DATA_DIR`. With less, the manager accepts no uploads and no new jobs, ' +
      'starts none, and `/ready` says so; deletes work. `0` turns it off.',
  },
  localShared: {
    name: 'OSCAR_LOCAL_SHARED',
    kind: kind.directories,
    default: '',
    meaning:
      'With plain processes in namespaces: directories of this machine that scripts may write to, if their permissions allow ' +
      'it. Everything else of the machine is read-only for scripts, and `/tmp`, `/var/tmp` and `/dev/shm` are their own.',
  },
  allowUnisolatedScripts: {
    name: 'OSCAR_ALLOW_UNISOLATED_SCRIPTS',
    kind: kind.flag,
    default: 'false',
    meaning:
      'Serve several users (`OIDC_ENABLE`) although scripts run as plain processes without namespaces. **A script of one user ' +
      'may then reach the files, the processes and the secrets of another.** Without it such a manager does not start.',
  },
  localAllowRemote: {
    name: 'OSCAR_LOCAL_ALLOW_REMOTE',
    kind: kind.flag,
    default: 'false',
    meaning:
      'Allow `OSCAR_LISTEN` to be an address that other machines can reach. **Every user who may create a service can then ' +
      'run programs on this machine**, as processes of the manager.',
  },
} as const satisfies Settings;
