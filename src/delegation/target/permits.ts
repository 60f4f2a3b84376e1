import type { JobKey, JobRecord } from '../../cluster/index.ts';
import { roomName } from '../../jobs/index.ts';
import type { Permit } from '../terms.ts';
import type { HostingParts } from './hosting.ts';
import { wordOn } from './word.ts';

/**
 * How long an origin waits for us unless it says otherwise (design §9). Longer: it has asked somebody else by then, and
 * what we hold is for nothing. Shorter: a job is given back that nobody else would have run sooner.
 */
const USUAL_LEASE = 90_000;

type TakenFrom = JobKey & Pick<JobRecord, 'taken'>;

/**
 * Leave to run attempts, with keys for their files. Between an offer and the start of its script one is enough, so that a
 * young one is not asked for again: whoever comes later is fenced by what the origin commits, not by this.
 */
export class Permits {
  readonly #hosting: Pick<HostingParts, 'services' | 'coordinatorOf' | 'now'>;
  /** The oldest first. */
  readonly #kept = new Map<string, { readonly permit: Permit; readonly until: number }>();
  /** By federation. */
  readonly #leases = new Map<string, number>();

  constructor(hosting: Pick<HostingParts, 'services' | 'coordinatorOf' | 'now'>) {
    this.#hosting = hosting;
  }

  /** How many are at hand. */
  get size(): number {
    return this.#kept.size;
  }

  keep(job: TakenFrom, permit: Permit): void {
    const now = this.#hosting.now();
    this.forget(job);
    this.#dropOld(now);
    this.#kept.set(roomName(job), { permit, until: now + permit.lease / 3 });
    if (job.taken) this.#leases.set(job.taken.uid, permit.lease);
  }

  /** One that is young, or a new one. Throws what the origin says, or that it says nothing. */
  async current(job: TakenFrom & Pick<JobRecord, 'serviceUid'>): Promise<Permit> {
    const kept = this.#kept.get(roomName(job));
    if (kept && this.#hosting.now() < kept.until) return kept.permit;
    const { origin, attempt, as } = await wordOn(job, this.#hosting);
    const permit = await origin.permit(attempt, as);
    this.keep(job, permit);
    return permit;
  }

  /** Milliseconds. */
  leaseOf({ taken }: Pick<JobRecord, 'taken'>): number {
    return this.#leases.get(taken?.uid ?? '') ?? USUAL_LEASE;
  }

  forget(key: JobKey): void {
    this.#kept.delete(roomName(key));
  }

  /** Keys of jobs that ended before they began are not held for ever. */
  #dropOld(now: number): void {
    for (const [name, { until }] of this.#kept) {
      if (until > now) return;
      this.#kept.delete(name);
    }
  }
}
