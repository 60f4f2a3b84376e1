import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Config } from '../config/index.ts';
import { type DelegationRoles, EventPump, expireJobs, type Jobs, Sweep } from '../jobs/index.ts';
import type { DiskSpace } from '../lib/disk-space.ts';
import type { ClusterStore } from '../model/service/index.ts';
import type { EventSource, JobStore, ObjectStore } from '../ports/index.ts';
import type { Staging } from '../staging/index.ts';
import type { Backend, OpenScheduler } from './backends/backend.ts';
import { openKubernetesBackend } from './backends/kubernetes.ts';
import type { Term } from './backends/leadership.ts';
import { openLocalBackend } from './backends/local.ts';
import type { OpenedCluster } from './cluster.ts';

export interface OpenJobs {
  readonly jobs: Jobs;
  readonly line: OpenScheduler;
  readonly staging: Staging;
  /** How scripts run. */
  readonly runtime: Backend['runtime'];
  readonly isolation: Backend['isolation'] | undefined;
  readonly deployment: Backend['deployment'];
  /** Resumes existing jobs and starts the scheduler. */
  lead(roles: DelegationRoles, term: Term): Promise<void>;
  close(): Promise<void>;
}

/** The object store of the cluster, as jobs need it. */
export interface JobsStore {
  readonly objects: ObjectStore;
  readonly events: EventSource;
  /** The store as users and other clusters see it. */
  readonly description: ClusterStore;
  /** Its URL for the processes that move the files of jobs. */
  readonly inside: string;
  /** The access key of the manager. */
  readonly account: string;
  /** The clock of the store; the local one by default. */
  readonly time?: () => Promise<number>;
}

/** How often expired job records are removed; more often if they are kept for a shorter time. */
const EXPIRE_EVERY_MS = 60_000;
const EXPIRE_AT_MOST_EVERY_MS = 1_000;

/** Opens the jobs of this cluster. They start with `lead`. */
export async function openJobs(
  config: Config,
  cluster: OpenedCluster & { readonly jobs: JobStore },
  { objects, events, description, inside, account, time }: JobsStore,
  log: Logger,
  disk?: DiskSpace,
): Promise<OpenJobs> {
  await using opened = new AsyncDisposableStack();
  const { kubernetes } = cluster;
  const workplace = opened.adopt(
    await (kubernetes ? openKubernetesBackend(config, kubernetes, objects, log) : openLocalBackend(config, log, disk)),
    (it) => it.close(),
  );
  const { runner, capacity, staging, runtime, isolation, node, keys, deployment } = workplace;
  const parts = {
    store: cluster.jobs,
    runner,
    capacity,
    services: cluster.services,
    secrets: cluster.secrets,
    objects,
    ownStore: { ...description, endpoint: inside },
    publicStore: description,
    storeAccount: account,
    namedStores: config.storageProviders,
    place: config.clusterId,
    node,
    timeout: config.jobTimeoutSeconds * 1000,
    maxEventBytes: config.maxEventBytes,
    now: Date.now,
    ...(keys && { keys }),
  };
  const line = opened.adopt(
    await workplace.line({
      ...parts,
      shares: {
        hosted: config.hostedShare / 100,
        weights: new Map(config.originWeights.map(({ clusterId, weight }) => [clusterId, weight])),
      },
      report: (err, job) => log.warn({ err, ...job }, 'job operation failed'),
    }),
    (it) => it.close?.(),
  );
  const jobs: Jobs = { ...parts, scheduler: line };
  const closing = opened.move();
  return {
    jobs,
    line,
    staging,
    runtime,
    isolation,
    deployment,
    async lead(roles, term) {
      await workplace.lead(jobs, term);
      await line.lead(roles, term.signal);
      const report = (err: unknown) => log.warn({ err }, 'could not process events of the object store');
      const pump = new EventPump({ source: events, jobs, report });
      term.defer(() => pump.stop());
      pump.start();
      const sweep = new Sweep({ jobs, journal: cluster.journal, report, storeTime: time ?? Date.now });
      term.defer(() => sweep.stop());
      sweep.start();
      void forgetOldJobs(config.jobTtlSeconds * 1000, jobs, term.signal, log);
      log.info({ runtime, waiting: line.waiting, running: line.running }, 'jobs can run');
    },
    close: () => closing.disposeAsync(),
  };
}

async function forgetOldJobs(ttl: number, jobs: Jobs, signal: AbortSignal, log: Logger): Promise<void> {
  const every = Math.min(EXPIRE_EVERY_MS, Math.max(EXPIRE_AT_MOST_EVERY_MS, ttl));
  while (!signal.aborted) {
    try {
      while (!signal.aborted && (await expireJobs(Date.now() - ttl, jobs)) > 0);
    } catch (err) {
      log.warn({ err }, 'could not remove expired jobs');
    }
    await pause(every, undefined, { signal, ref: false }).catch(() => undefined);
  }
}
