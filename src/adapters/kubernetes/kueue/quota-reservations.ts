import type { Demand } from '../../../model/job/index.ts';
import { NOTHING, sum } from '../capacity/index.ts';
import { isNewer, JOB, type Stored } from '../client/kinds.ts';
import type { ClusterQueue, Workload } from './objects.ts';

/**
 * How long a pledge lasts that Kueue is not seen to count. Shorter: an offer that takes its full ten seconds is not counted while its
 * Job is made. Longer: quota that is free is kept for nobody, where a queue says the same before and after.
 */
const LASTS_MS = 20_000;

interface QuotaReservation {
  readonly queue: string;
  readonly demand: Demand;
  readonly until: number;
  /** The version in which its Workload was first seen to have its quota: a newer state of the queue has it too. */
  reservedAt?: string;
}

/** What was promised to jobs out of the quotas of users, and is not in the figures of Kueue yet. */
export class QuotaReservations {
  readonly #now: () => number;
  readonly #reservations = new Map<string, QuotaReservation>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** For the Job at this place, `<namespace>/<name>`. */
  add(job: string, queue: string, demand: Demand): void {
    this.#reservations.set(job, { queue, demand, until: this.#now() + LASTS_MS });
  }

  release(job: string): void {
    this.#reservations.delete(job);
  }

  /** What Kueue says of a Job by now. */
  onWorkload({ metadata, status }: Stored<Workload>): void {
    const owner = metadata.ownerReferences?.find(({ kind }) => kind === JOB.kind);
    const pledge = this.#reservations.get(`${metadata.namespace}/${owner?.name}`);
    const isReserved = status?.conditions?.some(
      ({ type, status: holds }) => type === 'QuotaReserved' && holds === 'True',
    );
    if (pledge && isReserved) pledge.reservedAt ??= metadata.resourceVersion;
  }

  /** All that is still to come out of this queue. */
  reservedIn({ metadata }: Pick<Stored<ClusterQueue>, 'metadata'>): Demand {
    let all = NOTHING;
    for (const [job, { queue, demand, until, reservedAt }] of this.#reservations) {
      const isOver = until < this.#now();
      if (isOver) this.#reservations.delete(job);
      if (isOver || queue !== metadata.name) continue;
      if (reservedAt !== undefined && isNewer(metadata.resourceVersion, reservedAt)) this.#reservations.delete(job);
      else all = sum(all, demand);
    }
    return all;
  }
}
