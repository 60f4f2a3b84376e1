import type { Demand, JobKey } from '../../../model/job/index.ts';
import type { Service } from '../../../model/service/index.ts';
import type { Api } from '../client/api.ts';
import type { KubeObject, Stored } from '../client/kinds.ts';
import { jobObjectName } from '../objects/labels.ts';
import { KueueCache } from './kueue-cache.ts';
import { type ClusterQueue, isQueued, type KueueSettings, localQueueName, type Workload } from './objects.ts';
import { KUEUE_NOT_INSTALLED, KueueQueues } from './queues.ts';
import { QuotaReservations } from './quota-reservations.ts';
import { quotaShortage } from './workload-reasons.ts';

export type { KueueCache } from './kueue-cache.ts';
export { type KueueSettings, QUEUE_NAME_LABEL, WORKLOAD, type Workload } from './objects.ts';
export { DELEGATED_ANNOTATION, evictionReason, isDelegated, waitingReason } from './workload-reasons.ts';

export interface KueueOptions {
  readonly api: Api;
  readonly settings: KueueSettings;
  /** Namespace of the administrator's services, whose jobs are not queued. */
  readonly servicesNamespace: string;
  readonly watch: { readonly watchMs: number; readonly silenceMs: number };
  readonly report: (problem: unknown) => void;
}

/** Kueue, which admits the jobs of users. */
export class Kueue {
  readonly cache: KueueCache;
  readonly #queues: KueueQueues;
  readonly #options: KueueOptions;
  readonly #reservations = new QuotaReservations();

  constructor(options: KueueOptions) {
    const { api, settings, watch, report } = options;
    this.#options = options;
    this.#queues = new KueueQueues(api, settings);
    this.cache = new KueueCache(api, watch, report);
    this.cache.onWorkload.add((jobUid) => {
      const workload = this.cache.workloadFor(jobUid);
      if (workload) this.#reservations.onWorkload(workload);
    });
  }

  /** Starts the watches. If the cluster has no Kueue, that is reported and checked again periodically. */
  async open(): Promise<void> {
    await this.cache.open(this.#queues);
  }

  get trouble(): string | undefined {
    return this.cache.trouble;
  }

  /** Why no jobs are admitted, as a message; undefined if Kueue is installed. */
  get problem(): string | undefined {
    return this.cache.installed ? undefined : KUEUE_NOT_INSTALLED;
  }

  /** The name of the LocalQueue in which jobs of this service wait; undefined when they are not queued. */
  queueFor(service: Service): string | undefined {
    return this.#isQueued(service) ? localQueueName(service.definition.name) : undefined;
  }

  async ensure(service: Service, definition: Stored<KubeObject>): Promise<void> {
    if (this.#isQueued(service)) await this.#queues.ensure(service, definition);
  }

  /** A LocalQueue can follow every change of its service. */
  async checkUpdate(): Promise<void> {}

  async remove(definition: Stored<KubeObject>): Promise<void> {
    await this.#queues.remove(definition);
  }

  /** Whether its queues exist, as far as the cache knows. */
  isCurrent(service: Service): boolean {
    if (!this.cache.installed || !this.#isQueued(service)) return true;
    return this.#clusterQueueOf(service) !== undefined;
  }

  /**
   * Reserves a part of the owner's quota for a job that is about to be created, until Kueue counts it itself. Returns why
   * Kueue would not admit the job now; undefined if it would, as far as the cache knows.
   */
  reserve(job: JobKey, service: Service, demand: Demand): string | undefined {
    const queue = this.#isQueued(service) ? this.#clusterQueueOf(service) : undefined;
    const refusal = queue && quotaShortage(queue, demand, this.#reservations.reservedIn(queue));
    if (queue && refusal === undefined) this.#reservations.add(jobObjectKey(job, service), queue.metadata.name, demand);
    return refusal;
  }

  /** Call when the job is not created after all. */
  release(job: JobKey, service: Service): void {
    this.#reservations.release(jobObjectKey(job, service));
  }

  workloadFor(jobUid: string): Stored<Workload> | undefined {
    return this.cache.workloadFor(jobUid);
  }

  async close(): Promise<void> {
    await this.cache.close();
  }

  #clusterQueueOf({ namespace, definition }: Service): Stored<ClusterQueue> | undefined {
    const queue = this.cache.localQueue(namespace, localQueueName(definition.name));
    return queue && this.cache.clusterQueue(queue.spec.clusterQueue);
  }

  #isQueued(service: Service): boolean {
    return isQueued(service, this.#options.servicesNamespace);
  }
}

const jobObjectKey = (job: JobKey, { namespace }: Service) => `${namespace}/${jobObjectName(job)}`;
