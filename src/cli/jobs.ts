import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { availableParallelism, hostname, totalmem } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { JobStore, ServiceStore } from '../cluster/index.ts';
import { LocalCapacity } from '../cluster/local/index.ts';
import {
  createLocalRunner,
  createProcessLauncher,
  type DockerSearch,
  findDocker,
  type Launcher,
  openDockerLauncher,
} from '../cluster/local-runner/index.ts';
import type { Config } from '../config.ts';
import { Dispatcher, EventPump, expireJobs, forgetStrays, type Jobs, Sweep } from '../jobs/index.ts';
import type { ClusterStore } from '../service/index.ts';
import type { EventSource, ObjectStore } from '../storage/index.ts';
import { createStaging, type Staging } from '../supervisor/index.ts';
import type { Cluster } from './cluster.ts';
import { runsDirectory } from './runs-directory.ts';

export interface OpenJobs {
  readonly jobs: Jobs;
  readonly dispatcher: Dispatcher;
  readonly staging: Staging;
  /** Where files of jobs are kept while they are worked on. */
  readonly directory: string;
  /** How scripts are run here. */
  readonly runtime: Launcher['kind'];
  /** Takes up what an earlier run has left, and begins. */
  begin(): Promise<void>;
  /** Removes what an earlier manager died over removing; once the services are what they should be. Never fails. */
  tidy(): Promise<void>;
  close(): Promise<void>;
}

/** The object store of the cluster, as jobs need it. */
export interface JobsStore {
  readonly objects: ObjectStore;
  readonly events: EventSource;
  readonly description: ClusterStore;
  /** Access key of the manager. */
  readonly account: string;
  /** What the clock of the store says; ours if left out. */
  readonly time?: () => Promise<number>;
}

/** Worker processes that move files for jobs. They mostly wait for stores and disks. */
const STAGING_WORKERS = 2;

/** User ids that scripts get, one each while they run. */
const UIDS = 500;

/** How often jobs are looked for that are to be forgotten; more often where they are remembered for less. */
const EXPIRE_EVERY_MS = 60_000;
const EXPIRE_AT_MOST_EVERY_MS = 1_000;

/** The jobs of this machine, ready to begin. */
export async function openJobs(
  config: Config,
  cluster: Cluster & { readonly jobs: JobStore },
  { objects, events, description, account, time }: JobsStore,
  log: Logger,
): Promise<OpenJobs> {
  await using opened = new AsyncDisposableStack();
  const { directory, launcher, endStrays } = await chooseLauncher(config, log);
  const staging = opened.adopt(createStaging({ workers: STAGING_WORKERS, networks: config.peerNetworks }), (it) =>
    it.close(),
  );
  const runner = opened.adopt(
    createLocalRunner({ directory, staging, launcher, maxLogBytes: config.maxLogBytes }),
    (it) => it.close(),
  );
  await endStrays?.(new Set(await runner.list()));
  const parts = {
    store: cluster.jobs,
    runner,
    capacity: new LocalCapacity({
      name: hostname(),
      cpu: config.localCpuMillicores ?? availableParallelism() * 1000,
      memory: config.localMemoryBytes ?? totalmem(),
      used: () => runner.usage(),
    }),
    services: cluster.services,
    secrets: cluster.secrets,
    objects,
    ownStore: description,
    storeAccount: account,
    namedStores: config.storageProviders,
    place: config.clusterId,
    node: hostname(),
    timeout: config.jobTimeoutSeconds * 1000,
    maxEventBytes: config.maxEventBytes,
    now: Date.now,
  };
  const dispatcher = opened.adopt(
    new Dispatcher({ ...parts, report: (err, job) => log.warn({ err, ...job }, 'trouble with a job') }),
    (it) => it.stop(),
  );
  const jobs: Jobs = { ...parts, dispatcher };
  const ending = new AbortController();
  opened.defer(() => ending.abort());
  const closing = opened.move();
  return {
    jobs,
    dispatcher,
    staging,
    directory,
    runtime: launcher.kind,
    async begin() {
      await dispatcher.start();
      const report = (err: unknown) => log.warn({ err }, 'trouble with the events of the object store');
      const pump = closing.adopt(new EventPump({ source: events, jobs, report }), (it) => it.stop());
      pump.start();
      const { journal } = cluster;
      const sweep = closing.adopt(new Sweep({ jobs, journal, report, storeTime: time ?? Date.now }), (it) => it.stop());
      sweep.start();
      void warmWhenNeeded(cluster.services, () => staging.warm(), ending.signal).catch((err: unknown) =>
        log.warn({ err }, 'the workers that move files could not be started beforehand'),
      );
      void forgetOldJobs(config.jobTtlSeconds * 1000, jobs, ending.signal, log);
      log.info({ runtime: launcher.kind, waiting: dispatcher.waiting, running: dispatcher.running }, 'jobs can run');
    },
    tidy: () =>
      forgetStrays(jobs).then(
        (strays) => void (strays > 0 && log.info({ strays }, 'removed runs that no job names')),
        (err: unknown) =>
          void (ending.signal.aborted || log.warn({ err }, 'runs that no job names could not be removed')),
      ),
    close: () => closing.disposeAsync(),
  };
}

interface Chosen {
  readonly directory: string;
  readonly launcher: Launcher;
  /** Ends what an earlier run left and no attempt knows of. */
  readonly endStrays?: (known: ReadonlySet<string>) => Promise<void>;
}

async function chooseLauncher(config: Config, log: Logger): Promise<Chosen> {
  const instance = instanceOf(config.dataDir);
  const docker: DockerSearch =
    config.localRuntime === 'process' ? { reason: 'OSCAR_LOCAL_RUNTIME=process' } : await findDocker(process.env);
  if (docker.socket !== undefined) {
    log.info({ engine: docker.name, socket: docker.socket }, 'scripts run in containers');
    const directory = runsDirectory(config.dataDir, false, instance);
    const launcher = await openDockerLauncher({ socket: docker.socket, instance });
    return { directory, launcher, endStrays: (known) => launcher.endStrays(known) };
  }
  if (config.localRuntime === 'docker') {
    throw new Error(`OSCAR_LOCAL_RUNTIME=docker, but no Docker or Podman answers: ${docker.reason}`);
  }
  const root = process.getuid?.() === 0;
  const directory = runsDirectory(config.dataDir, root, instance);
  log.warn({ because: docker.reason }, 'scripts run as plain processes of this machine: their images are not used');
  const launcher = createProcessLauncher({
    directory,
    maxDisk: config.localDiskBytes,
    ...(root && { uids: { first: config.localUid, count: UIDS } }),
  });
  return { directory, launcher };
}

/** Two managers of one Docker tell their containers apart by where they keep their data. */
function instanceOf(dataDir: string): string {
  return createHash('sha256').update(realpathSync(dataDir)).digest('hex').slice(0, 16);
}

/** The workers are started with the first service: a manager without any pays nothing for them. */
async function warmWhenNeeded(services: ServiceStore, warm: () => Promise<void>, signal: AbortSignal): Promise<void> {
  const changes = services.watch(signal);
  const { items } = await services.list({ limit: 1 });
  if (items.length > 0) return warm();
  for await (const _ of changes) return warm();
}

async function forgetOldJobs(ttl: number, jobs: Jobs, signal: AbortSignal, log: Logger): Promise<void> {
  const every = Math.min(EXPIRE_EVERY_MS, Math.max(EXPIRE_AT_MOST_EVERY_MS, ttl));
  while (!signal.aborted) {
    try {
      while (!signal.aborted && (await expireJobs(Date.now() - ttl, jobs)) > 0);
    } catch (err) {
      log.warn({ err }, 'old jobs could not be removed');
    }
    await pause(every, undefined, { signal, ref: false }).catch(() => undefined);
  }
}
