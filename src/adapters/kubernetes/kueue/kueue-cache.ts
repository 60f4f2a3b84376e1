import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { Informer, type InformerOptions } from '../client/informer.ts';
import { JOB, type KubeObject, type Metadata, type Stored } from '../client/kinds.ts';
import { WatchCache } from '../client/watch-cache.ts';
import { CLUSTER_QUEUE, type ClusterQueue, LOCAL_QUEUE, type LocalQueue, WORKLOAD, type Workload } from './objects.ts';
import { KUEUE_NOT_INSTALLED, type KueueQueues } from './queues.ts';

/** How often a cluster without Kueue is looked at: somebody may be installing it. */
const LOOK_MS = 30_000;

/** Conditions of a Workload that say where it is. */
const SAID = new Set(['QuotaReserved', 'Admitted', 'Evicted', 'Finished']);

const objectKey = ({ metadata }: KubeObject) => `${metadata.namespace ?? ''}/${metadata.name}`;

/** The queues, and what Kueue says of the jobs in them, as they are by now: every manager of the cluster has it. */
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
  /** Told of the Job whose Workload has changed, by its uid. */
  readonly onWorkload = new Set<(jobUid: string) => void>();

  constructor(api: Api, watch: Pick<InformerOptions, 'watchMs' | 'silenceMs'>, report: (problem: unknown) => void) {
    this.#report = (problem) => {
      const known = toStoreError(problem, 'watch the queues of Kueue');
      this.#trouble = known instanceof Error ? known.message : String(known);
      report(known);
    };
    const nobody = () => undefined;
    this.#clusterQueues = new WatchCache((queue) => queue, nobody, this.#report);
    this.#localQueues = new WatchCache((queue) => queue, nobody, this.#report, objectKey);
    this.#workloads = new WatchCache(slimWorkload, (uid) => this.#tell(uid), this.#report, jobUidOf);
    this.#informers = [
      new Informer(api, CLUSTER_QUEUE, this.#clusterQueues, watch),
      new Informer(api, LOCAL_QUEUE, this.#localQueues, watch),
      new Informer(api, WORKLOAD, this.#workloads, watch),
    ];
  }

  /** Is Kueue there, as far as is known? */
  get installed(): boolean {
    return this.#installed;
  }

  /** The last thing that went wrong with the watches, as a sentence. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** Begins to look, as soon as there is something to be seen. */
  async open(queues: Pick<KueueQueues, 'isInstalled'>): Promise<void> {
    this.#installed = await queues.isInstalled();
    if (!this.#installed) this.#report(new Error(KUEUE_NOT_INSTALLED));
    this.#opening ??= this.#follow(queues);
    // Who leads knows from the first who is let in and who is not.
    if (this.#installed) await this.#opening;
  }

  clusterQueue(name: string): Stored<ClusterQueue> | undefined {
    return this.#clusterQueues.get(name);
  }

  localQueue(namespace: string, name: string): Stored<LocalQueue> | undefined {
    return this.#localQueues.get(`${namespace}/${name}`);
  }

  /** Of the Job with that uid; without what is not read here. */
  workloadFor(jobUid: string): Stored<Workload> | undefined {
    return this.#workloads.get(jobUid);
  }

  /** What was just written. */
  put(workload: Stored<Workload>): void {
    this.#workloads.put(workload);
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await Promise.all(this.#informers.map((informer) => informer.stop()));
    await this.#opening;
  }

  #tell(jobUid: string): void {
    for (const listener of this.onWorkload) listener(jobUid);
  }

  async #follow(queues: Pick<KueueQueues, 'isInstalled'>): Promise<void> {
    const { signal } = this.#closed;
    while (!this.#installed) {
      await pause(LOOK_MS, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      this.#installed = await queues.isInstalled().catch(() => false);
    }
    await Promise.all(this.#informers.map((informer) => informer.start()));
  }
}

/** By the Job that it is of; those of others are kept under their own uid, which is no Job's. */
function jobUidOf({ metadata }: KubeObject): string {
  const owner = metadata.ownerReferences?.find(({ kind }) => kind === JOB.kind);
  return owner?.uid ?? ('uid' in metadata ? String(metadata.uid) : metadata.name);
}

/** Most have ended, and are kept by Kueue for as long as their Jobs. */
function slimWorkload({ metadata, spec, status = {} }: Stored<Workload>): Stored<Workload> {
  const { name, namespace, uid, resourceVersion, annotations, ownerReferences } = metadata;
  const slim: Metadata = {
    name,
    ...(namespace !== undefined && { namespace }),
    ...(annotations && { annotations }),
    ...(ownerReferences && { ownerReferences }),
  };
  const conditions = (status.conditions ?? []).filter(({ type }) => SAID.has(type));
  return {
    metadata: { ...slim, uid, resourceVersion },
    spec: { ...(spec.active !== undefined && { active: spec.active }) },
    status: { conditions },
  };
}
