import { type Jobs, jobKeyText, type Scheduler } from '../../jobs/index.ts';
import { KeyedMutex } from '../../lib/concurrency.ts';
import type { Secret } from '../../lib/secret.ts';
import type { Free, Snapshot } from '../../model/cluster-snapshot.ts';
import type { Demand, JobKey, JobRecord, S3Access } from '../../model/job/index.ts';
import type { FederationRole, Service } from '../../model/service/index.ts';
import type { Origin, Permit } from '../../peers/index.ts';
import { contactOrigin, type OperatorStores } from './origin-contact.ts';

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

/**
 * Jobs of other clusters may wait here for room, up to this many for each running job. With a larger value, jobs wait here
 * that another member could start sooner; with a smaller one, slots are idle between two short jobs, because the next one
 * arrives only a round trip after the last one has ended.
 */
const QUEUED_PER_RUNNING = 2;

interface TargetRoomDeps extends Pick<TargetConfig, 'ownStatus' | 'now'> {
  readonly dispatcher: Pick<TargetConfig['dispatcher'], 'running' | 'waiting'>;
}

/** The room of this cluster, as its origins are told in every message about a job. */
export class TargetRoom {
  readonly #deps: TargetRoomDeps;
  /** What is reserved for offers that are not answered yet, by the id of the origin's cluster. */
  readonly #considering = new Map<string, Free>();
  /** Offers of jobs that will wait here and are not in the queue yet. */
  #entering = 0;
  #serial = 0;

  constructor(deps: TargetRoomDeps) {
    this.#deps = deps;
  }

  /** How many more jobs of other clusters may wait here. 0 at a manager that does not lead: it does not know the queue. */
  get queue(): number {
    const { running, waiting } = this.#deps.dispatcher;
    return Math.max(0, QUEUED_PER_RUNNING * running - waiting - this.#entering);
  }

  /** Counts room that is reserved for an offer, until the returned function is called. */
  consider(origin: string, demand: Demand): () => void {
    this.#add(origin, demand, 1);
    return () => this.#add(origin, demand, -1);
  }

  /** Counts an offer whose job will wait in the queue, until the returned function is called. */
  enter(): () => void {
    this.#entering++;
    return () => void this.#entering--;
  }

  /** The figures for one origin. The serial also grows over restarts, unless the clock was set back. */
  statusFor(origin: string): Snapshot {
    this.#serial = Math.max(this.#serial + 1, Math.floor(this.#deps.now()) * 1000);
    const considering = this.#considering.get(origin);
    return {
      ...this.#deps.ownStatus(),
      serial: this.#serial,
      ...(considering && { considering: { ...considering } }),
      queue: this.queue,
    };
  }

  #add(origin: string, { cpu, memory, gpu }: Demand, sign: 1 | -1): void {
    const before = this.#considering.get(origin) ?? { cpu: 0, memory: 0, gpu: 0 };
    const now = { cpu: before.cpu + sign * cpu, memory: before.memory + sign * memory, gpu: before.gpu + sign * gpu };
    if (now.cpu === 0 && now.memory === 0 && now.gpu === 0) this.#considering.delete(origin);
    else this.#considering.set(origin, now);
  }
}
