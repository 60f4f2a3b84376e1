import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { Informer, type InformerOptions } from '../client/informer.ts';
import { JOB, type KubeObject, type Metadata, type Stored } from '../client/kinds.ts';
import { WatchCache } from '../client/watch-cache.ts';
import { CLUSTER_QUEUE, type ClusterQueue, LOCAL_QUEUE, type LocalQueue, WORKLOAD, type Workload } from './objects.ts';
import { KUEUE_NOT_INSTALLED, type KueueQueues } from './queues.ts';

/** How often a cluster without Kueue is checked, in case an operator installs it. */
const CHECK_MS = 30_000;

/** The conditions of a Workload that the manager reads. */
const CONDITIONS = new Set(['QuotaReserved', 'Admitted', 'Evicted', 'Finished']);

const objectKey = ({ metadata }: KubeObject) => `${metadata.namespace ?? ''}/${metadata.name}`;

/** The queues and Workloads of Kueue, updated by watches. Every manager of the cluster has this cache. */
export class KueueCache {
  readonly #clusterQueues: WatchCache<ClusterQueue>;
  readonly #localQueues: WatchCache<LocalQueue>;
  readonly #workloads: WatchCache<Workload>;
  readonly #informers: readonly Pick<Informer<KubeObject>, 'start' | 'stop'>[];
  readonly #closed = new AbortController();
  readonly #report: (problem: unknown) => void;
  #opening: Promise<void> | undefined;
  #installed = false;
  #trouble: string | undefined;
  /** Called with the uid of a Job whose Workload has changed. */
  readonly onWorkload = new Set<(jobUid: string) => void>();

  constructor(api: Api, watch: Pick<InformerOptions, 'watchMs' | 'silenceMs'>, report: (problem: unknown) => void) {
    this.#report = (problem) => {
      const known = toStoreError(problem, 'watch the queues of Kueue');
      this.#trouble = known instanceof Error ? known.message : String(known);
      report(known);
    };
    const ignore = () => undefined;
    this.#clusterQueues = new WatchCache((queue) => queue, ignore, this.#report);
    this.#localQueues = new WatchCache((queue) => queue, ignore, this.#report, objectKey);
    this.#workloads = new WatchCache(slimWorkload, (uid) => this.#notify(uid), this.#report, jobUidOf);
    this.#informers = [
      new Informer(api, CLUSTER_QUEUE, this.#clusterQueues, watch),
      new Informer(api, LOCAL_QUEUE, this.#localQueues, watch),
      new Informer(api, WORKLOAD, this.#workloads, watch),
    ];
  }

  /** Whether Kueue is installed, as far as is known. */
  get installed(): boolean {
    return this.#installed;
  }

  /** The last problem of the watches. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** Starts the watches as soon as Kueue is installed. */
  async open(queues: Pick<KueueQueues, 'isInstalled'>): Promise<void> {
    this.#installed = await queues.isInstalled();
    if (!this.#installed) this.#report(new Error(KUEUE_NOT_INSTALLED));
    this.#opening ??= this.#follow(queues);
    // A leader must know from the beginning which jobs are admitted.
    if (this.#installed) await this.#opening;
  }

  clusterQueue(name: string): Stored<ClusterQueue> | undefined {
    return this.#clusterQueues.get(name);
  }

  localQueue(namespace: string, name: string): Stored<LocalQueue> | undefined {
    return this.#localQueues.get(`${namespace}/${name}`);
  }

  /** The Workload of the Job with this uid, reduced to the fields that the manager reads. */
  workloadFor(jobUid: string): Stored<Workload> | undefined {
    return this.#workloads.get(jobUid);
  }

  /** Puts a Workload that the manager has just written. */
  put(workload: Stored<Workload>): void {
    this.#workloads.put(workload);
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await Promise.all(this.#informers.map((informer) => informer.stop()));
    await this.#opening;
  }

  #notify(jobUid: string): void {
    for (const listener of this.onWorkload) listener(jobUid);
  }

  async #follow(queues: Pick<KueueQueues, 'isInstalled'>): Promise<void> {
    const { signal } = this.#closed;
    while (!this.#installed) {
      await pause(CHECK_MS, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      this.#installed = await queues.isInstalled().catch(() => false);
    }
    await Promise.all(this.#informers.map((informer) => informer.start()));
  }
}

/** The uid of the Job of a Workload. Workloads of other kinds are stored under their own uid, which no Job has. */
function jobUidOf({ metadata }: KubeObject): string {
  const owner = metadata.ownerReferences?.find(({ kind }) => kind === JOB.kind);
  return owner?.uid ?? ('uid' in metadata ? String(metadata.uid) : metadata.name);
}

/** Most Workloads have finished, and Kueue keeps them as long as their Jobs, so only the necessary fields are cached. */
function slimWorkload({ metadata, spec, status = {} }: Stored<Workload>): Stored<Workload> {
  const { name, namespace, uid, resourceVersion, annotations, ownerReferences } = metadata;
  const slim: Metadata = {
    name,
    ...(namespace !== undefined && { namespace }),
    ...(annotations && { annotations }),
    ...(ownerReferences && { ownerReferences }),
  };
  const conditions = (status.conditions ?? []).filter(({ type }) => CONDITIONS.has(type));
  return {
    metadata: { ...slim, uid, resourceVersion },
    spec: { ...(spec.active !== undefined && { active: spec.active }) },
    status: { conditions },
  };
}
