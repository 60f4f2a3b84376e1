import { type Jobs, jobKeyText, type Scheduler } from '../../jobs/index.ts';
import { KeyedMutex } from '../../lib/concurrency.ts';
import type { Secret } from '../../lib/secret.ts';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import type { Demand, JobKey, JobRecord, S3Access } from '../../model/job/index.ts';
import type { FederationRole, Service } from '../../model/service/index.ts';
import type { Origin, Permit } from '../../peers/index.ts';
import { contactOrigin } from './origin-contact.ts';
import type { OperatorStores } from './origin-store.ts';
import { TargetRoom } from './room.ts';

export type WorkerRole = Extract<FederationRole, { role: 'worker' }>;

/** What the target needs to run jobs of other clusters. */
export interface TargetConfig
  extends Pick<
    Jobs,
    'store' | 'runner' | 'capacity' | 'services' | 'secrets' | 'place' | 'node' | 'timeout' | 'maxEventBytes' | 'now'
  > {
  readonly dispatcher: Scheduler;
  /** The coordinator of a worker, and the member key; undefined if the coordinator is not known any more. */
  readonly coordinatorOf: (role: WorkerRole) => Promise<Coordinator | undefined>;
  readonly stores: OperatorStores;
  /** The free capacity of this cluster. */
  readonly ownStatus: () => Snapshot;
  /** Quotas of service owners, if the cluster has any. */
  readonly quotas?: Quotas;
  /** Why an object cannot be read with these keys; undefined if it can. */
  readonly unreadable: (object: StoredAt, access: S3Access, until: AbortSignal) => Promise<string | undefined>;
  /** Why its store cannot be reached; "no such object" counts as reachable. */
  readonly unreachable: (object: StoredAt, access: S3Access, until: AbortSignal) => Promise<string | undefined>;
  /** Called with errors of background work. */
  readonly report: (problem: unknown, key: JobKey) => void;
  /** Resolves after so many milliseconds, or when the signal aborts. */
  readonly wait?: (ms: number, until: AbortSignal) => Promise<void>;
  readonly random?: () => number;
}

interface Quotas {
  /**
   * Reserves quota for a job that is about to be accepted. Returns why the job would have to wait for quota; undefined
   * if it would not, or if that is unknown.
   */
  reserve(job: JobKey, service: Service, demand: Demand): string | undefined;
  /** Releases the reservation of a job that is not accepted after all. */
  release(job: JobKey, service: Service): void;
}

const NO_QUOTAS: Quotas = { reserve: () => undefined, release: () => undefined };

export interface Coordinator {
  readonly origin: Origin;
  /** Undefined for the moment in which the key is replaced. */
  readonly key: Secret | undefined;
}

interface StoredAt {
  readonly bucket: string;
  readonly key: string;
}

/** The configuration, with state that exists only while this manager runs. */
export interface TargetDeps extends Required<TargetConfig> {
  readonly mutex: KeyedMutex;
  readonly permits: PermitCache;
  readonly room: TargetRoom;
  /** When stores last answered, by endpoint. */
  readonly reachableStores: Map<string, number>;
  /** Aborts when this manager stops. */
  readonly closing: AbortSignal;
}

export function openTarget(parts: TargetConfig, closing: AbortSignal): TargetDeps {
  const deps = {
    wait,
    random: Math.random,
    quotas: NO_QUOTAS,
    ...parts,
    mutex: new KeyedMutex(),
    reachableStores: new Map(),
    closing,
  };
  return { ...deps, permits: new PermitCache(deps), room: new TargetRoom(deps) };
}

/**
 * A timer that does not keep the process alive. Written by hand because every job aborts such a wait, and Node's own
 * creates an error with a stack each time.
 */
const wait = (ms: number, until: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (until.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      until.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms).unref();
    until.addEventListener('abort', done);
  });

/**
 * The lease of an origin that has not told another one (docs/delegation.md#how). With a larger value, the origin has
 * given the job to another member before we report; a smaller one releases jobs that no other member would have run
 * sooner.
 */
const USUAL_LEASE = 90_000;

type TakenFrom = JobKey & Pick<JobRecord, 'taken'>;

/**
 * Permits of attempts, with the keys for their files. A recent permit is used again between an offer and the start of
 * its script. An outdated one does no harm: the origin fences the attempt when it commits.
 */
export class PermitCache {
  readonly #deps: Pick<TargetConfig, 'services' | 'coordinatorOf' | 'now'>;
  /** Oldest first. */
  readonly #kept = new Map<string, { readonly permit: Permit; readonly until: number }>();
  /** Milliseconds, by federation. */
  readonly #leases = new Map<string, number>();

  constructor(deps: Pick<TargetConfig, 'services' | 'coordinatorOf' | 'now'>) {
    this.#deps = deps;
  }

  /** The number of cached permits. */
  get size(): number {
    return this.#kept.size;
  }

  keep(job: TakenFrom, permit: Permit): void {
    const now = this.#deps.now();
    this.forget(job);
    this.#dropOld(now);
    this.#kept.set(jobKeyText(job), { permit, until: now + permit.lease / 3 });
    if (job.taken) this.#leases.set(job.taken.uid, permit.lease);
  }

  /** A recent permit, or a new one. Throws the origin's error, or that it does not answer. */
  async current(job: TakenFrom & Pick<JobRecord, 'serviceUid'>): Promise<Permit> {
    const kept = this.#kept.get(jobKeyText(job));
    if (kept && this.#deps.now() < kept.until) return kept.permit;
    const { origin, attempt, as } = await contactOrigin(job, this.#deps);
    const permit = await origin.permit(attempt, as);
    this.keep(job, permit);
    return permit;
  }

  /** Milliseconds. */
  leaseFor({ taken }: Pick<JobRecord, 'taken'>): number {
    return this.#leases.get(taken?.uid ?? '') ?? USUAL_LEASE;
  }

  forget(key: JobKey): void {
    this.#kept.delete(jobKeyText(key));
  }

  /** Drops permits of jobs that ended before they started. */
  #dropOld(now: number): void {
    for (const [name, { until }] of this.#kept) {
      if (until > now) return;
      this.#kept.delete(name);
    }
  }
}
