import { jobKeyText } from '../../jobs/index.ts';
import { Heap } from '../../lib/heap.ts';
import type { Demand, JobKey, JobRecord } from '../../model/job/index.ts';
import type { ClusterChange } from '../scoreboard/index.ts';
import type { OfferLoop, OfferOptions } from './offer-loop.ts';

/** A job that no member has accepted so far, and the options of its next offer loop. */
interface WaitingJob {
  readonly key: JobKey;
  readonly options: OfferOptions;
  /** The endpoints of the clusters whose changes may let the job start. */
  readonly endpoints: readonly string[];
}

/** How many changes the scoreboard has reported so far. */
export interface ChangeCount {
  readonly all: number;
  /** Changes that said that a cluster answers again. */
  readonly returns: number;
}

interface Service {
  /** The endpoints of the clusters that may accept any of these jobs, and the list from which they are. */
  endpoints: ReadonlySet<string>;
  listed: readonly string[];
  /** Each job's place: they are offered in the order in which they began to wait. A job that is being offered keeps its place. */
  readonly places: Map<string, number>;
  /** The jobs that are not being offered. */
  readonly idle: Map<string, WaitingJob>;
  /** The names of idle jobs, first places first. Names of other jobs stay in it until they are the first. */
  readonly order: Heap<{ readonly name: string; readonly place: number }>;
  isOffering: boolean;
  /** There was a change while jobs were being offered. */
  again: boolean;
}

/**
 * Jobs that wait until a member can accept them. When the scoreboard reports a change, they are offered at once. Jobs
 * that wait for capacity are offered one after the other, oldest first, as long as a member seems to have free
 * capacity, without waiting for the answers. Jobs that wait for one member are offered as soon as it answers again.
 */
export class WaitingJobs {
  readonly #startOffer: (key: JobKey, options: OfferOptions) => Pick<OfferLoop, 'decided'> | undefined;
  readonly #forCapacity = new Map<string, Service>();
  readonly #forMember = new Map<string, WaitingJob>();

  #nextPlace = 0;
  #newsSoFar: ChangeCount = { all: 0, returns: 0 };

  /** `startOffer` starts an offer loop; it returns undefined if one is running for the job already. */
  constructor(startOffer: (key: JobKey, options: OfferOptions) => Pick<OfferLoop, 'decided'> | undefined) {
    this.#startOffer = startOffer;
  }

  get changeCount(): ChangeCount {
    return this.#newsSoFar;
  }

  /**
   * Any member may accept the job as soon as it has capacity. If there was a change since `known`, the job is offered
   * again at once.
   */
  waitForCapacity(given: WaitingJob, known: ChangeCount): void {
    const job = known.returns === this.#newsSoFar.returns ? given : withoutRefusals(given);
    const { service } = job.key;
    const waiting = this.#forCapacity.get(service) ?? {
      endpoints: new Set(),
      listed: [],
      places: new Map<string, number>(),
      idle: new Map<string, WaitingJob>(),
      order: new Heap((a, b) => a.place < b.place),
      isOffering: false,
      again: false,
    };
    if (waiting.listed !== job.endpoints) waiting.endpoints = new Set(job.endpoints);
    waiting.listed = job.endpoints;
    const name = jobKeyText(job.key);
    const place = waiting.places.get(name) ?? this.#nextPlace++;
    waiting.places.set(name, place);
    if (!waiting.idle.has(name)) waiting.order.push({ name, place });
    waiting.idle.set(name, job);
    this.#forCapacity.set(service, waiting);
    if (known.all !== this.#newsSoFar.all) void this.#offer(service, waiting);
  }

  /**
   * One member must answer: it is the only one that may run the job, or it may have the job already. If a cluster came
   * back since `known`, the job is offered again at once.
   */
  waitForMember(job: WaitingJob, known: ChangeCount): void {
    this.#forMember.set(jobKeyText(job.key), job);
    if (known.returns !== this.#newsSoFar.returns) this.#startOffer(job.key, job.options);
  }

  /** Does nothing if the job does not wait. */
  drop(key: JobKey): void {
    const name = jobKeyText(key);
    this.#forMember.delete(name);
    const waiting = this.#forCapacity.get(key.service);
    if (!waiting?.places.delete(name)) return;
    waiting.idle.delete(name);
    if (waiting.places.size === 0 && !waiting.isOffering) this.#forCapacity.delete(key.service);
  }

  /** The scoreboard has learned something new about a cluster. */
  onClusterChange(endpoint: string, change: ClusterChange): void {
    const { all, returns } = this.#newsSoFar;
    const isBack = change === 'back';
    this.#newsSoFar = { all: all + 1, returns: isBack ? returns + 1 : returns };
    if (isBack) this.#isBack(endpoint);
    for (const [service, waiting] of this.#forCapacity) {
      if (waiting.endpoints.has(endpoint)) void this.#offer(service, waiting);
    }
  }

  #isBack(endpoint: string): void {
    for (const { key, options, endpoints } of this.#forMember.values()) {
      if (endpoints.includes(endpoint)) this.#startOffer(key, options);
    }
    for (const { endpoints, idle } of this.#forCapacity.values()) {
      if (!endpoints.has(endpoint)) continue;
      // The member may have rejected them because it could not reach this manager, or may not have answered.
      for (const [name, job] of idle) if (job.options.refusals) idle.set(name, withoutRefusals(job));
    }
  }

  /** Never rejects: offer loops report their own errors. */
  async #offer(service: string, waiting: Service): Promise<void> {
    waiting.again = true;
    if (waiting.isOffering) return;
    waiting.isOffering = true;
    while (waiting.again) {
      waiting.again = false;
      for (let job = takeFirst(waiting); job; job = takeFirst(waiting)) {
        // Undefined if a loop of the job runs already. When a loop ends, the job waits here again or is dropped.
        const loop = this.#startOffer(job.key, job.options);
        if (loop && !(await loop.decided)) break;
      }
    }
    waiting.isOffering = false;
    if (waiting.places.size === 0) this.#forCapacity.delete(service);
  }
}

/** Removes the idle job with the first place. */
function takeFirst({ idle, order }: Service): WaitingJob | undefined {
  for (let next = order.pop(); next; next = order.pop()) {
    const job = idle.get(next.name);
    if (job && idle.delete(next.name)) return job;
  }
  return undefined;
}

function withoutRefusals({ options: { refusals: _, ...options }, ...job }: WaitingJob): WaitingJob {
  return { ...job, options: options };
}

/**
 * How long a result is valid, unless a cluster changes. A larger value notices free local capacity late; a smaller one
 * ranks the members again for each waiting job.
 */
const BELIEVED_MS = 1_000;

/** The largest number of services in the cache. */
const MOST_KEPT = 1_000;

interface Found {
  readonly demand: Demand;
  readonly message: string;
  readonly at: number;
}

/**
 * Services whose members had no free capacity a moment ago, so that the next waiting job of the service need not find
 * that out again.
 */
export class SaturationCache {
  readonly #found = new Map<string, Found>();

  note({ serviceUid, demand }: JobRecord, message: string, at: number): void {
    this.#found.delete(serviceUid);
    this.#found.set(serviceUid, { demand, message, at });
    const [oldest] = this.#found.keys();
    if (this.#found.size > MOST_KEPT && oldest !== undefined) this.#found.delete(oldest);
  }

  /** A cluster may have free capacity now. */
  clear(): void {
    this.#found.clear();
  }

  /** The message for a job with the same demand. Jobs that entered at a member are never answered from the cache. */
  messageFor({ serviceUid, demand, openedBy }: JobRecord, now: number): string | undefined {
    const found = this.#found.get(serviceUid);
    if (!found || openedBy !== undefined || now - found.at >= BELIEVED_MS) return undefined;
    const { cpu, memory, gpu } = found.demand;
    return cpu === demand.cpu && memory === demand.memory && gpu === demand.gpu ? found.message : undefined;
  }
}
