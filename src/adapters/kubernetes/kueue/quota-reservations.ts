import type { Demand } from '../../../model/job/index.ts';
import { NOTHING, sum } from '../capacity/index.ts';
import { isNewer, JOB, type Stored } from '../client/kinds.ts';
import type { ClusterQueue, Workload } from './objects.ts';

/**
 * How long a reservation lasts if Kueue is not seen to count the job. With a shorter time an offer that takes its full ten
 * seconds is not counted while its Job is created; a longer one blocks free quota when the figures of the queue do not change.
 */
const LASTS_MS = 20_000;

interface QuotaReservation {
  readonly queue: string;
  readonly demand: Demand;
  readonly until: number;
  /** The version in which its Workload first had its quota: a newer version of the ClusterQueue counts it too. */
  reservedAt?: string;
}

/** Quota reserved for jobs that Kueue does not count yet. */
export class QuotaReservations {
  readonly #now: () => number;
  readonly #reservations = new Map<string, QuotaReservation>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Reserves quota for the Job `<namespace>/<name>`. */
  add(job: string, queue: string, demand: Demand): void {
    this.#reservations.set(job, { queue, demand, until: this.#now() + LASTS_MS });
  }

  release(job: string): void {
    this.#reservations.delete(job);
  }

  /** Call when the Workload of a Job has changed. */
  onWorkload({ metadata, status }: Stored<Workload>): void {
    const owner = metadata.ownerReferences?.find(({ kind }) => kind === JOB.kind);
    const reservation = this.#reservations.get(`${metadata.namespace}/${owner?.name}`);
    const isReserved = status?.conditions?.some(
      ({ type, status: holds }) => type === 'QuotaReserved' && holds === 'True',
    );
    if (reservation && isReserved) reservation.reservedAt ??= metadata.resourceVersion;
  }

  /** The sum of the reservations in this ClusterQueue that Kueue does not count yet. */
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
