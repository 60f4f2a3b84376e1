import type { Demand, JobKey } from '../../../model/job/index.ts';
import type { Service } from '../../../model/service/index.ts';
import type { Api } from '../client/api.ts';
import type { KubeObject, Stored } from '../client/kinds.ts';
import { jobObjectName } from '../objects/labels.ts';
import { KueueCache } from './kueue-cache.ts';
import { type ClusterQueue, isQueued, type KueueSettings, localQueueName, type Workload } from './objects.ts';
import { KUEUE_NOT_INSTALLED, KueueQueues } from './queues.ts';
import { QuotaReservations } from './quota-reservations.ts';
import { quotaRefusal } from './why-held.ts';

export type { KueueCache } from './kueue-cache.ts';
export { type KueueSettings, QUEUE, WORKLOAD, type Workload } from './objects.ts';
export { ELSEWHERE, isElsewhere, whyEvicted, whyHeld } from './why-held.ts';

export interface KueueOptions {
  readonly api: Api;
  readonly settings: KueueSettings;
  /** Of the administrator's services, whose jobs do not wait. */
  readonly servicesNamespace: string;
  readonly watch: { readonly watchMs: number; readonly silenceMs: number };
  readonly report: (problem: unknown) => void;
}

/** Kueue, as far as it lets the jobs of users in. */
export class Kueue {
  readonly picture: KueueCache;
  readonly #queues: KueueQueues;
  readonly #options: KueueOptions;
  readonly #pledges = new QuotaReservations();

  constructor(options: KueueOptions) {
    const { api, settings, watch, report } = options;
    this.#options = options;
    this.#queues = new KueueQueues(api, settings);
    this.picture = new KueueCache(api, watch, report);
    this.picture.onWorkload.add((jobUid) => {
      const workload = this.picture.workloadOf(jobUid);
      if (workload) this.#pledges.heard(workload);
    });
  }

  /** Begins to look at what is there. A cluster without Kueue is told of, and looked at again now and then. */
  async open(): Promise<void> {
    await this.picture.open(this.#queues);
  }

  get trouble(): string | undefined {
    return this.picture.trouble;
  }

  /** Why nobody lets jobs in, for people; undefined when somebody may. */
  get problem(): string | undefined {
    return this.picture.installed ? undefined : KUEUE_NOT_INSTALLED;
  }

  /** The name of the queue in which jobs of this service wait; undefined when they do not. */
  queueOf(service: Service): string | undefined {
    return this.#isQueued(service) ? localQueueName(service.definition.name) : undefined;
  }

  async keep(service: Service, definition: Stored<KubeObject>): Promise<void> {
    if (this.#isQueued(service)) await this.#queues.keep(service, definition);
  }

  /** A queue can follow every change of its service. */
  async check(): Promise<void> {}

  async remove(definition: Stored<KubeObject>): Promise<void> {
    await this.#queues.remove(definition);
  }

  /** Are its queues there, as far as is known? */
  isKept(service: Service): boolean {
    if (!this.picture.installed || !this.#isQueued(service)) return true;
    return this.#clusterQueueOf(service) !== undefined;
  }

  /**
   * Pledges a part of its owner's quota to a job of this service that is about to be made, until Kueue is seen to count it. Why it
   * would not be let in now; undefined when it would, as far as is known without asking.
   */
  reserve(job: JobKey, service: Service, demand: Demand): string | undefined {
    const queue = this.#isQueued(service) ? this.#clusterQueueOf(service) : undefined;
    const refusal = queue && quotaRefusal(queue, demand, this.#pledges.of(queue));
    if (queue && refusal === undefined) this.#pledges.add(placeOf(job, service), queue.metadata.name, demand);
    return refusal;
  }

  /** The job is not made after all. */
  release(job: JobKey, service: Service): void {
    this.#pledges.release(placeOf(job, service));
  }

  workloadOf(jobUid: string): Stored<Workload> | undefined {
    return this.picture.workloadOf(jobUid);
  }

  async close(): Promise<void> {
    await this.picture.close();
  }

  #clusterQueueOf({ namespace, definition }: Service): Stored<ClusterQueue> | undefined {
    const queue = this.picture.localQueue(namespace, localQueueName(definition.name));
    return queue && this.picture.clusterQueue(queue.spec.clusterQueue);
  }

  #isQueued(service: Service): boolean {
    return isQueued(service, this.#options.servicesNamespace);
  }
}

const placeOf = (job: JobKey, { namespace }: Service) => `${namespace}/${jobObjectName(job)}`;
