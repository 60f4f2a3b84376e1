import { type Jobs, jobKeyText, type Scheduler } from '../../jobs/index.ts';
import type { Secret } from '../../lib/secret.ts';
import type { Demand, JobKey, JobRecord, S3Access } from '../../model/job/index.ts';
import type { FederationRole, Service } from '../../model/service/index.ts';
import type { Origin, Permit } from '../../peers/index.ts';
import { contactOrigin } from './origin-contact.ts';
import type { OperatorStores } from './origin-store.ts';

export type WorkerRole = Extract<FederationRole, { role: 'worker' }>;

/** What it takes to run jobs for other clusters. */
export interface TargetConfig
  extends Pick<
    Jobs,
    'store' | 'runner' | 'capacity' | 'services' | 'secrets' | 'place' | 'node' | 'timeout' | 'maxEventBytes' | 'now'
  > {
  readonly dispatcher: Scheduler;
  /** The coordinator of a worker, and the key that both know; undefined when that is gone. */
  readonly coordinatorOf: (role: WorkerRole) => Promise<Coordinator | undefined>;
  readonly stores: OperatorStores;
  /** What owners of services may still run on this cluster, where that is limited. */
  readonly quotas?: Quotas;
  /** Why an object cannot be read with these keys; undefined when it can. */
  readonly unreadable: (object: StoredAt, access: S3Access, until: AbortSignal) => Promise<string | undefined>;
  /** Why its store cannot be spoken to; that there is no such object is an answer. */
  readonly unreachable: (object: StoredAt, access: S3Access, until: AbortSignal) => Promise<string | undefined>;
  /** Told of what nobody waits for. */
  readonly report: (problem: unknown, key: JobKey) => void;
  /** Resolves after so many milliseconds, or when it is not worth waiting any more. */
  readonly wait?: (ms: number, until: AbortSignal) => Promise<void>;
  readonly random?: () => number;
}

interface Quotas {
  /**
   * Keeps a part of it for a job that is about to be accepted. Why that would have to wait, whatever room there is; undefined when
   * it would not, or nobody knows.
   */
  reserve(job: JobKey, service: Service, demand: Demand): string | undefined;
  /** The job is not accepted after all. */
  release(job: JobKey, service: Service): void;
}

const NO_QUOTAS: Quotas = { reserve: () => undefined, release: () => undefined };

export interface Coordinator {
  readonly origin: Origin;
  /** Undefined in the moment in which another takes its place. */
  readonly key: Secret | undefined;
}

interface StoredAt {
  readonly bucket: string;
  readonly key: string;
}

/** The same, with what is only known while this manager runs. */
export interface TargetDeps extends Required<TargetConfig> {
  readonly mutex: KeyedMutex;
  readonly permits: PermitCache;
  /** Stores that answered lately, by their endpoints, and when. */
  readonly reachableStores: Map<string, number>;
  /** Aborts when this manager stops. */
  readonly closing: AbortSignal;
}

export function openTarget(parts: TargetConfig, closing: AbortSignal): TargetDeps {
  const hosting = {
    wait,
    random: Math.random,
    quotas: NO_QUOTAS,
    ...parts,
    mutex: new KeyedMutex(),
    reachableStores: new Map(),
    closing,
  };
  return { ...hosting, permits: new PermitCache(hosting) };
}

/**
 * Nothing that waits keeps the process alive: it is in the records. Made by hand, because every job ends such a wait, and
 * the one of Node makes an error of that, with its stack.
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

/** Does what concerns one name one after the other. */
class KeyedMutex {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name);
    const mine = before ? before.then(work, work) : work();
    this.#last.set(name, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(name) === mine) this.#last.delete(name);
    }
  }
}

/**
 * How long an origin waits for us unless it says otherwise (docs/delegation.md#how). Longer: it has asked somebody else
 * by then, and what we hold is for nothing. Shorter: a job is given back that nobody else would have run sooner.
 */
const USUAL_LEASE = 90_000;

type TakenFrom = JobKey & Pick<JobRecord, 'taken'>;

/**
 * Leave to run attempts, with keys for their files. Between an offer and the start of its script one is enough, so that a
 * young one is not asked for again: whoever comes later is fenced by what the origin commits, not by this.
 */
export class PermitCache {
  readonly #hosting: Pick<TargetConfig, 'services' | 'coordinatorOf' | 'now'>;
  /** The oldest first. */
  readonly #kept = new Map<string, { readonly permit: Permit; readonly until: number }>();
  /** By federation. */
  readonly #leases = new Map<string, number>();

  constructor(hosting: Pick<TargetConfig, 'services' | 'coordinatorOf' | 'now'>) {
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
    this.#kept.set(jobKeyText(job), { permit, until: now + permit.lease / 3 });
    if (job.taken) this.#leases.set(job.taken.uid, permit.lease);
  }

  /** One that is young, or a new one. Throws what the origin says, or that it says nothing. */
  async current(job: TakenFrom & Pick<JobRecord, 'serviceUid'>): Promise<Permit> {
    const kept = this.#kept.get(jobKeyText(job));
    if (kept && this.#hosting.now() < kept.until) return kept.permit;
    const { origin, attempt, as } = await contactOrigin(job, this.#hosting);
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

  /** Keys of jobs that ended before they began are not held for ever. */
  #dropOld(now: number): void {
    for (const [name, { until }] of this.#kept) {
      if (until > now) return;
      this.#kept.delete(name);
    }
  }
}
