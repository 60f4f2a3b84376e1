import { cluster } from './groups/cluster.ts';
import { federation } from './groups/federation.ts';
import { jobs } from './groups/jobs.ts';
import { kubernetes } from './groups/kubernetes.ts';
import { kueue } from './groups/kueue.ts';
import { local } from './groups/local.ts';
import { server } from './groups/server.ts';
import type { Settings } from './groups/setting.ts';
import { store } from './groups/store.ts';
import { unsupported } from './groups/unsupported.ts';
import { users } from './groups/users.ts';
import type { Values } from './kinds/kind.ts';

interface Group {
  readonly title: string;
  readonly settings: Settings;
}

/**
 * All settings; each group is a file. `docs/configuration.md` is generated from these tables (`npm run docs`), and the type
 * `Config` is derived from their kinds: a setting with a default always has a value.
 */
export const SETTING_GROUPS: readonly Group[] = [
  { title: 'This cluster', settings: cluster },
  { title: 'Server and logs', settings: server },
  { title: 'Administrator and users', settings: users },
  { title: 'Object store', settings: store },
  { title: 'Federation', settings: federation },
  { title: 'Jobs', settings: jobs },
  { title: 'With `OSCAR_BACKEND=local`', settings: local },
  { title: 'With `OSCAR_BACKEND=kubernetes`', settings: kubernetes },
  { title: 'With `KUEUE_ENABLE=true`', settings: kueue },
  { title: 'Not supported yet', settings: unsupported },
];

export const SETTINGS = {
  ...cluster,
  ...server,
  ...users,
  ...store,
  ...federation,
  ...jobs,
  ...local,
  ...kubernetes,
  ...kueue,
  ...unsupported,
} as const satisfies Settings;

/** The parsed settings. */
export interface Config extends Values<typeof SETTINGS> {}
