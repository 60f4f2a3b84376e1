import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { Outside } from '../../test/support/jobs.ts';
import { type Connection, connect } from './connection.ts';
import { freePort, type ManagerProcess, startManagerProcess } from './manager-process.ts';
import { type SlowLink, startSlowLink } from './slow-link.ts';
import { CONNECTIONS } from './throughput.ts';
import type { BenchUser } from './user.ts';

/** A coordinator and members that are managers of their own, in processes of their own, with stores on the disk. */
export interface Delegating extends AsyncDisposable {
  readonly coordinator: ManagerProcess;
  readonly members: readonly ManagerProcess[];
  /** What users have of the coordinator. */
  readonly outside: Outside;
  readonly user: BenchUser;
  /** Of the user, for services of this coordinator. */
  readonly refreshToken: string;
  /** How their members are reached, in order: as the definition of a federation has it. */
  readonly endpoints: readonly string[];
}

export interface DelegatingOptions {
  readonly members: number;
  /** Environment variables of the coordinator and of all members. */
  readonly settings?: Readonly<Record<string, string>>;
  /** What all members run. */
  readonly program?: readonly string[];
  /** All ways between the coordinator and its members, and theirs to its store, take so long. */
  readonly roundTripMs?: number;
  /** Told of each piece that members have sent, as the coordinator gets it; only over ways that take long. */
  readonly heard?: (piece: Buffer) => void;
}

/** Room for whatever comes: who has none refuses, and that is not what is measured. */
const ROOM = { OSCAR_LOCAL_CPU: '100000', OSCAR_LOCAL_MEMORY: '100Ti' };

/** Not the default: jobs that stay would be told of again, thousands of them, while others are measured. */
const RARE_WORDS = { OSCAR_LEASE_SECONDS: '3600' };

const METRICS = 'metrics-token';

export async function startDelegating(user: BenchUser, options: DelegatingOptions): Promise<Delegating> {
  await using opened = new AsyncDisposableStack();
  const { roundTripMs, heard, program } = options;
  const settings = {
    ...user.settings,
    OSCAR_PEER_NETWORKS: '127.0.0.0/8',
    OIDC_CLIENT_ID: 'oscar',
    OSCAR_METRICS_TOKEN: METRICS,
    ...ROOM,
    ...RARE_WORDS,
    ...options.settings,
  };
  const linked = async (url: string, more: { arrived?: (piece: Buffer) => void } = {}): Promise<string> => {
    if (roundTripMs === undefined) return url;
    const link: SlowLink = opened.use(await startSlowLink(url, { roundTripMs, ...more }));
    return link.url;
  };

  const members: ManagerProcess[] = [];
  while (members.length < options.members) {
    members.push(opened.use(await startManagerProcess({ settings, ...(program && { program }) })));
  }
  const endpoints = await Promise.all(members.map(({ url }) => linked(url, { ...(heard && { arrived: heard }) })));
  const [port, storePort] = [await freePort(), await freePort()];
  const coordinator = opened.use(
    await startManagerProcess({
      port,
      settings: {
        ...settings,
        OSCAR_STORE_PORT: String(storePort),
        OSCAR_ENDPOINT: await linked(`http://127.0.0.1:${port}`),
        ...(roundTripMs !== undefined && { MINIO_PUBLIC_ENDPOINT: await linked(`http://127.0.0.1:${storePort}`) }),
      },
    }),
  );
  const all = opened.move();
  return {
    coordinator,
    members,
    endpoints,
    outside: new Outside(coordinator.url),
    user,
    refreshToken: await user.refreshToken(),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** A service whose jobs all run on members, in no order, unless `more` says otherwise. Resolves to its token. */
export function createDelegated(
  { outside, endpoints, user, refreshToken }: Delegating,
  name: string,
  script: string,
  { federation = {}, ...more }: Record<string, unknown> & { readonly federation?: object } = {},
): Promise<string> {
  const ids = endpoints.map((_, index) => `member-${index}`);
  return outside.create(user.as, {
    name,
    image: 'not-used',
    cpu: '0.1',
    memory: '64Mi',
    script,
    input: [{ storage_provider: 'minio.default', path: `${name}/in` }],
    output: [{ storage_provider: 'minio.default', path: `${name}/out` }],
    environment: { secrets: { refresh_token: refreshToken } },
    federation: {
      topology: 'star',
      delegation: 'random',
      delegate_when: 'always',
      // Only when no other member is left.
      self: { weight: 0 },
      ...federation,
      members: ids.map((cluster_id, index) => ({ cluster_id, service_name: `${name}-${index}` })),
    },
    ...more,
    clusters: Object.fromEntries(ids.map((id, index) => [id, { endpoint: endpoints[index], ssl_verify: false }])),
  });
}

/** What is counted at the coordinator. */
export interface Counted {
  /** Offers that were taken. */
  readonly taken: number;
  /** Jobs whose results were written. */
  readonly committed: number;
}

export async function count(delegating: Delegating): Promise<Counted> {
  const { status, text } = await delegating.outside.call('GET', '/metrics', { as: `Bearer ${METRICS}` });
  if (status === 503) {
    await pause(LOOK_EVERY_MS);
    return count(delegating);
  }
  assert.equal(status, 200, text);
  const counted = (name: string, outcome: string) =>
    Number(new RegExp(`^${name}\\{outcome="${outcome}"\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
  return {
    taken: counted('oscar_offers_seconds_count', 'taken'),
    committed: counted('oscar_commits_seconds_count', 'succeeded'),
  };
}

/** How often it is looked. More often, and the looks are part of what is measured. */
const LOOK_EVERY_MS = 50;

/** A burst that takes longer has failed. */
const DEADLINE_MS = 120_000;

/** So many jobs at once; how many of them get there in a second. Who is asked in vain costs time, and is no failure. */
export async function burst(
  delegating: Delegating,
  { name, token, jobs, until }: { name: string; token: string; jobs: number; until: 'taken' | 'committed' },
): Promise<number> {
  const before = await count(delegating);
  const begun = performance.now();
  const arrived = async () => {
    for (let done = 0; done < jobs; ) {
      await pause(LOOK_EVERY_MS);
      const now = await count(delegating);
      done = now[until] - before[until];
      if (performance.now() - begun > DEADLINE_MS) throw new Error(`only ${done} of ${jobs} jobs were ${until}`);
    }
  };
  await Promise.all([submitAll(delegating.coordinator.url, name, token, jobs), arrived()]);
  return jobs / ((performance.now() - begun) / 1_000);
}

/** Submits so many jobs, over several connections at once. */
export async function submitAll(url: string, name: string, token: string, jobs: number): Promise<void> {
  let left = jobs;
  const worker = async () => {
    using connection = connect(url, token);
    while (left-- > 0) await submit(connection, name);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
}

/** As often as the manager says that it has too much to do, as clients are told to. */
async function submit(connection: Connection, name: string): Promise<void> {
  for (;;) {
    try {
      await connection.call({ method: 'POST', path: `/job/${name}`, body: '{"n":1}' });
      return;
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes(' with 503 ')) throw error;
      await pause(LOOK_EVERY_MS);
    }
  }
}
