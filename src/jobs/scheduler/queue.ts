import type { Demand, JobKey } from '../../model/job/index.ts';
import type { Capacity, Obstacle, Runner, ServiceStore } from '../../ports/index.ts';
import { jobKeyText, type QueueShares, type SchedulableJob } from '../jobs.ts';

/** A job that is queued for room here. */
export interface QueuedJob {
  readonly key: JobKey;
  /** Owners take turns, so that a thousand jobs of one do not starve the single job of another. */
  readonly owner: string;
  /** The cluster that sent the job. Absent for a job of this cluster. Origins take turns too. */
  readonly origin?: string;
  readonly demand: Demand;
  /** It is a synchronous call: its caller waits for the answer. */
  readonly call?: boolean;
}

interface Entry extends QueuedJob {
  removed: boolean;
  /** How many jobs of other owners were started while this one was the first of its owner and had no room. */
  overtaken: number;
}

/**
 * How often a job that has no room may be overtaken by smaller jobs of other owners. A smaller value leaves room unused
 * while a large job waits; with a larger one a large job may wait for ever on a busy cluster.
 */
export const MAX_OVERTAKEN = 32;

/** What to do with a job that may not be overtaken any more and still has no room. */
export interface Blocked {
  readonly obstacleFor: (waiting: QueuedJob) => Obstacle;
  /** Keeping room free would not help this job, so it leaves the queue. */
  readonly setAside: (waiting: QueuedJob) => void;
}

const EQUAL_SHARES: QueueShares = { hosted: 0.5, weights: new Map() };

/** The jobs of this cluster, or those that one other cluster sent. */
interface Group {
  readonly origin: string | undefined;
  /** In the order of turns. Owners without queued jobs are not in it. */
  readonly owners: Map<string, OwnerQueue>;
  /** Virtual time: each start adds the reciprocal of the group's share, and the group with the least is next. */
  pass: number;
}

/** Groups without jobs are remembered while they are ahead of their share, up to so many. */
const MAX_IDLE_GROUPS = 1_000;

/**
 * The order of jobs. This cluster and each cluster that sent jobs get their shares of the starts (start-time fair queueing).
 * Among the jobs of one of them owners take turns, and the jobs of one owner start in the order in which they arrived.
 */
export class FairQueue {
  readonly #shares: QueueShares;
  readonly #groups = new Map<string | undefined, Group>();
  readonly #entries = new Map<string, Entry>();
  /** The virtual time of the last start. */
  #now = 0;

  constructor(shares: QueueShares = EQUAL_SHARES) {
    this.#shares = shares;
  }

  get size(): number {
    return this.#entries.size;
  }

  has(key: JobKey): boolean {
    return this.#entries.has(jobKeyText(key));
  }

  /** Adding a queued job again is a no-op. */
  add(waiting: QueuedJob): void {
    const name = jobKeyText(waiting.key);
    if (this.#entries.has(name)) return;
    const entry: Entry = { ...waiting, removed: false, overtaken: 0 };
    this.#entries.set(name, entry);
    const { owners } = this.#groupFor(waiting.origin);
    const ownerQueue = owners.get(waiting.owner);
    if (ownerQueue) ownerQueue.push(entry);
    else owners.set(waiting.owner, new OwnerQueue(entry));
  }

  remove(key: JobKey): void {
    const entry = this.#entries.get(jobKeyText(key));
    if (!entry) return;
    entry.removed = true;
    this.#entries.delete(jobKeyText(key));
    const owners = this.#groups.get(entry.origin)?.owners;
    if (!owners?.get(entry.owner)?.first) owners?.delete(entry.owner);
  }

  /** Takes the next job for which `reserve` finds room. */
  take(
    reserve: (waiting: QueuedJob) => boolean,
    { obstacleFor: obstacleOf, setAside }: Blocked,
  ): QueuedJob | undefined {
    const passed: Entry[] = [];
    let gpusAreKept = false;
    for (const { group, owner, ownerQueue } of this.#inOrder()) {
      for (let entry = ownerQueue.first; entry; entry = ownerQueue.first) {
        if (gpusAreKept && entry.demand.gpu > 0) break;
        if (reserve(entry)) {
          for (const each of passed) each.overtaken++;
          this.#countStart(group);
          this.remove(entry.key);
          // Move this owner to the end of the turns, if it has more jobs.
          if (group.owners.delete(owner) && ownerQueue.first) group.owners.set(owner, ownerQueue);
          return entry;
        }
        if (entry.overtaken < MAX_OVERTAKEN) {
          passed.push(entry);
          break;
        }
        const obstacle = obstacleOf(entry);
        if (obstacle === 'ours') return undefined;
        if (obstacle === 'gpus') {
          gpusAreKept = true;
          break;
        }
        this.remove(entry.key);
        setAside(entry);
      }
    }
    return undefined;
  }

  /** All owners with jobs, the next one first. */
  *#inOrder() {
    const waiting = [...this.#groups.values()].filter(({ owners }) => owners.size > 0);
    const isLast = ({ origin }: Group) => Number(!this.#hasShare(origin));
    for (const group of waiting.toSorted((a, b) => isLast(a) - isLast(b) || a.pass - b.pass)) {
      for (const [owner, ownerQueue] of group.owners) yield { group, owner, ownerQueue };
    }
  }

  /** A group that had no jobs has no claim on the starts that it has missed. */
  #groupFor(origin: string | undefined): Group {
    const group = this.#groups.get(origin) ?? { origin, owners: new Map<string, OwnerQueue>(), pass: 0 };
    if (group.owners.size === 0) group.pass = Math.max(group.pass, this.#now);
    if (!this.#groups.has(origin) && this.#groups.size >= MAX_IDLE_GROUPS) this.#forgetIdleGroups();
    this.#groups.set(origin, group);
    return group;
  }

  #forgetIdleGroups(): void {
    for (const [origin, { owners, pass }] of this.#groups) {
      if (owners.size === 0 && pass <= this.#now) this.#groups.delete(origin);
    }
  }

  #countStart(group: Group): void {
    // A group without a share starts only when no other has a job, which says nothing about the others' turns.
    const hasShare = this.#hasShare(group.origin);
    if (hasShare) this.#now = group.pass;
    group.pass += hasShare ? 1 / this.#shareOf(group.origin) : 1;
  }

  #hasShare(origin: string | undefined): boolean {
    const { hosted } = this.#shares;
    return origin === undefined ? hosted < 1 : hosted > 0 && this.#weightOf(origin) > 0;
  }

  #shareOf(origin: string | undefined): number {
    const { hosted } = this.#shares;
    if (origin === undefined) return 1 - hosted;
    let total = 0;
    for (const group of this.#groups.values()) {
      if (group.origin !== undefined && group.owners.size > 0) total += this.#weightOf(group.origin);
    }
    return (hosted * this.#weightOf(origin)) / total;
  }

  #weightOf(origin: string): number {
    return this.#shares.weights.get(origin) ?? 1;
  }
}

/** First in, first out. Removed entries are dropped when they reach the front. */
class OwnerQueue {
  #entries: Entry[];
  #head = 0;

  constructor(first: Entry) {
    this.#entries = [first];
  }

  push(entry: Entry): void {
    this.#entries.push(entry);
  }

  get first(): Entry | undefined {
    while (this.#entries[this.#head]?.removed) this.#head++;
    // Shifting one entry at a time is slow for long queues, so drop many at once now and then.
    if (this.#head > 1024 && this.#head * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#head);
      this.#head = 0;
    }
    return this.#entries[this.#head];
  }
}

interface JobQueueDeps extends Omit<CallLimitsDeps, 'enqueue' | 'isQueued' | 'start'> {
  readonly capacity: Pick<Capacity, 'refusal' | 'reserve' | 'obstacle' | 'shortage'>;
  /** Half of the starts for jobs of other clusters by default, in equal parts. */
  readonly shares?: QueueShares;
  /** Called for a job that is next and whose room is reserved. */
  readonly start: (job: QueuedJob) => void;
  /** Called with the reason why a job waits. */
  readonly setMessage: (key: JobKey, message: string) => void;
  /** Called for a job that the cluster has kept suspended for {@link SUSPENDED_PATIENCE_MS}. */
  readonly onSuspendedLong: (key: JobKey) => void;
  /** Called for a synchronous call that its service's limit admits, and that has no room now. */
  readonly onCallWaits?: (key: JobKey) => void;
}

/**
 * Jobs that wait to start on this cluster. Most are in the fair queue for room. Outside of it, where they block no other
 * job, are jobs that no node could ever run, jobs for which other users of the cluster leave too little room, jobs that the
 * cluster keeps suspended, and calls that wait for other calls of their service.
 */
export class JobQueue {
  readonly #deps: JobQueueDeps;
  readonly #queue: FairQueue;
  readonly #unfittable = new UnfittableJobs();
  /** Jobs for which the pods of others leave too little room. */
  readonly #blockedByOthers = new UnfittableJobs();
  readonly #suspended: SuspendedJobs;
  readonly #callLimits: CallLimits;
  #closed = false;

  constructor(deps: JobQueueDeps) {
    this.#deps = deps;
    this.#queue = new FairQueue(deps.shares);
    this.#suspended = new SuspendedJobs(deps.onSuspendedLong);
    this.#callLimits = new CallLimits({
      ...deps,
      enqueue: (call) => {
        this.#queue.add(call);
        this.startFitting();
        if (this.#isQueued(call.key)) deps.onCallWaits?.(call.key);
      },
      isQueued: (key) => this.#queue.has(key) || this.#blockedByOthers.has(key),
      start: (call) => {
        this.#queue.remove(call.key);
        if (!this.#closed) this.#start(call);
      },
    });
  }

  /** Jobs in the fair queue. */
  get size(): number {
    return this.#queue.size;
  }

  /** Whether there is no room for this job now. */
  waitsForRoom(key: JobKey): boolean {
    return this.#unfittable.has(key) || this.#blockedByOthers.has(key) || this.#queue.has(key);
  }

  isSuspended(key: JobKey): boolean {
    return this.#suspended.has(key);
  }

  /**
   * Adding a job again is a no-op. A job that is queued already is not suspended by an older record: the cluster has
   * admitted it since that record was read.
   */
  add(job: SchedulableJob): void {
    const waiting = toQueuedJob(job);
    if (job.held !== undefined) {
      if (!this.#isQueued(waiting.key)) this.#suspended.add(waiting);
      return;
    }
    this.#suspended.take(waiting.key);
    this.#admit(waiting);
  }

  /** Adds a job again that was taken from the queue but could not be started. */
  requeue(waiting: QueuedJob, held: boolean): void {
    if (held) this.#suspended.add(waiting);
    else {
      this.#enqueue(waiting);
      this.startFitting();
    }
  }

  /** The record has changed: the cluster may have admitted a suspended job, or suspended a queued one. */
  onChanged(job: SchedulableJob): void {
    const waiting = toQueuedJob(job);
    if (job.held === undefined) {
      if (this.#suspended.take(waiting.key)) this.#admit(waiting);
    } else if (this.#isQueued(waiting.key)) {
      this.remove(waiting.key);
      this.#callLimits.remove(waiting.key);
      this.#suspended.add(waiting);
    }
  }

  /** Does nothing if the job is not queued. */
  remove(key: JobKey): void {
    this.#queue.remove(key);
    this.#unfittable.remove(key);
    this.#blockedByOthers.remove(key);
    this.#suspended.take(key);
  }

  /** Counts a call that already runs, even beyond the limit of its service. */
  addRunningCall(job: SchedulableJob): void {
    this.#callLimits.addRunning(toQueuedJob(job));
  }

  /** Frees the call slot so that the next queued call of the service can start. */
  releaseCall(key: JobKey): void {
    this.#callLimits.remove(key);
  }

  /** There may be more room than before. The cluster may also have grown, so check the jobs outside of the queue again. */
  onCapacityFreed(): void {
    const { capacity, setMessage: explain } = this.#deps;
    const back = this.#blockedByOthers.takeFitting((demand) => capacity.obstacle(demand) !== 'others');
    const fitting = this.#unfittable.takeFitting((demand) => capacity.refusal(demand) === undefined);
    for (const { key } of [...back, ...fitting]) explain(key, 'waits for room');
    for (const waiting of back) this.#queue.add(waiting);
    for (const waiting of fitting) this.#enqueue(waiting);
    this.startFitting();
  }

  /** Starts all jobs that have room now. */
  startFitting(): void {
    while (!this.#closed) {
      const next = this.#queue.take(
        ({ key, demand }) => this.#deps.capacity.reserve(jobKeyText(key), demand),
        this.#blocked,
      );
      if (!next) return;
      this.#start(next);
    }
  }

  /** Starts no more jobs. */
  close(): void {
    this.#closed = true;
    this.#callLimits.stop();
    this.#suspended.stop();
  }

  readonly #blocked: Blocked = {
    obstacleFor: ({ demand }) => this.#deps.capacity.obstacle(demand),
    setAside: (waiting) => {
      this.#blockedByOthers.add(waiting);
      this.#deps.setMessage(waiting.key, BLOCKED_BY_OTHERS);
    },
  };

  /** Whether the job is in the fair queue, or was until others left too little room for it. */
  #isQueued(key: JobKey): boolean {
    return this.#queue.has(key) || this.#blockedByOthers.has(key);
  }

  #start(waiting: QueuedJob): void {
    this.#unfittable.remove(waiting.key);
    this.#blockedByOthers.remove(waiting.key);
    this.#deps.start(waiting);
  }

  /** Queues the job if a node could ever run it. */
  #admit(waiting: QueuedJob): void {
    const refusal = this.#deps.capacity.refusal(waiting.demand);
    if (refusal === undefined) {
      this.#enqueue(waiting);
      const shortage = this.#deps.capacity.shortage?.();
      if (shortage !== undefined) this.#deps.setMessage(waiting.key, `waits: ${shortage}`);
    } else {
      // In the queue it would block all jobs of its owner. Its record shows the reason, and it can be cancelled.
      this.#unfittable.add(waiting);
      this.#deps.setMessage(waiting.key, refusal);
    }
    this.startFitting();
  }

  #enqueue(waiting: QueuedJob): void {
    if (waiting.call) this.#callLimits.add(waiting);
    else this.#queue.add(waiting);
  }
}

const BLOCKED_BY_OTHERS =
  'waits: what others run in the cluster leaves too little room for it, or its nodes take no work now';

const toQueuedJob = ({ service, id, owner, demand, trigger, taken }: SchedulableJob): QueuedJob => ({
  key: { service, id },
  owner: taken ? `${owner} in ${taken.uid}` : owner,
  ...(taken && { origin: taken.origin ?? taken.uid }),
  demand,
  call: trigger === 'run',
});

interface CallLimitsDeps {
  readonly services: Pick<ServiceStore, 'get'>;
  readonly runner: Pick<Runner, 'standby'>;
  /** Queues an admitted call for room, like any job. */
  readonly enqueue: (call: QueuedJob) => void;
  readonly isQueued: (key: JobKey) => boolean;
  /** Starts a call that got a standby pod, whether it is queued for room or not. */
  readonly start: (call: QueuedJob) => void;
  readonly report: (problem: unknown, key: JobKey) => void;
}

interface ServiceCalls {
  /** In the order of arrival. */
  readonly waiting: Map<string, QueuedJob>;
  /** Calls within the limit: they run, or are queued for room. */
  readonly admitted: Map<string, QueuedJob>;
}

/**
 * Limits the synchronous calls (`/run`) of each service to its `synchronous.max_scale`. Further calls wait here, where they
 * do not block other jobs of their owner. An admitted call may get a standby pod (`synchronous.min_scale`); then it needs
 * no room of its own.
 */
class CallLimits {
  readonly #deps: CallLimitsDeps;
  readonly #services = new Map<string, ServiceCalls>();
  readonly #unsubscribe: (() => void) | undefined;

  constructor(deps: CallLimitsDeps) {
    this.#deps = deps;
    this.#unsubscribe = deps.runner.standby?.onReady((service) => this.#onStandbyReady(service));
  }

  /** Adding a call again is a no-op. */
  add(call: QueuedJob): void {
    const { waiting, admitted: through } = this.#callsFor(call.key.service);
    const name = jobKeyText(call.key);
    if (through.has(name) || waiting.has(name)) return;
    waiting.set(name, call);
    this.#admitNextSoon(call.key);
  }

  /** Counts a call that already runs, even beyond the limit. */
  addRunning(call: QueuedJob): void {
    this.#callsFor(call.key.service).admitted.set(jobKeyText(call.key), call);
  }

  /** The call has ended or was withdrawn. Does nothing for an unknown call. */
  remove(key: JobKey): void {
    const service = this.#services.get(key.service);
    const name = jobKeyText(key);
    if (!service) return;
    service.waiting.delete(name);
    if (service.admitted.delete(name)) this.#deps.runner.standby?.release(key);
    if (service.waiting.size > 0) this.#admitNextSoon(key);
    else if (service.admitted.size === 0) this.#services.delete(key.service);
  }

  stop(): void {
    this.#unsubscribe?.();
    this.#services.clear();
  }

  #callsFor(name: string): ServiceCalls {
    const known = this.#services.get(name) ?? { waiting: new Map(), admitted: new Map() };
    this.#services.set(name, known);
    return known;
  }

  #admitNextSoon(key: JobKey): void {
    this.#admitNext(key.service).catch((problem: unknown) => this.#deps.report(problem, key));
  }

  async #admitNext(name: string): Promise<void> {
    const most = await this.#maxScale(name);
    // Look this up after the await: calls may have been admitted or removed meanwhile.
    const service = this.#services.get(name);
    if (!service) return;
    for (const [id, call] of service.waiting) {
      if (service.admitted.size >= most) return;
      service.waiting.delete(id);
      service.admitted.set(id, call);
      if (this.#deps.runner.standby?.claim(call.key)) this.#deps.start(call);
      else this.#deps.enqueue(call);
    }
  }

  /**
   * There is no limit for a service that was removed, since its jobs end anyway, nor for one whose definition cannot be
   * read, since its calls would wait for ever.
   */
  async #maxScale(name: string): Promise<number> {
    const found = await this.#deps.services.get(name).catch((problem: unknown) => {
      this.#deps.report(problem, { service: name, id: '' });
      return undefined;
    });
    return found?.service.definition.synchronous.max_scale || Number.POSITIVE_INFINITY;
  }

  /** A standby pod is ready. The first admitted call that is still queued for room gets it. */
  #onStandbyReady(service: string): void {
    for (const call of this.#services.get(service)?.admitted.values() ?? []) {
      if (!this.#deps.isQueued(call.key)) continue;
      if (this.#deps.runner.standby?.claim(call.key)) this.#deps.start(call);
      return;
    }
  }
}

/**
 * How long a job may be suspended before this counts as no room. A smaller value offers jobs to other clusters that this one
 * is about to admit, since its admission controller needs some tenths of a second for each. With a larger value jobs wait
 * here that could run on another cluster.
 */
export const SUSPENDED_PATIENCE_MS = 2_000;

interface SuspendedJob {
  readonly waiting: QueuedJob;
  readonly timer: NodeJS.Timeout;
}

/** Jobs that the cluster does not admit yet, whatever room there is. They block no other job. */
class SuspendedJobs {
  readonly #jobs = new Map<string, SuspendedJob>();
  readonly #onLong: (key: JobKey) => void;

  /** `onLong` is called for each job that is still suspended after {@link SUSPENDED_PATIENCE_MS}. */
  constructor(onLong: (key: JobKey) => void) {
    this.#onLong = onLong;
  }

  has(key: JobKey): boolean {
    return this.#jobs.has(jobKeyText(key));
  }

  /** Adding a queued job again is a no-op. */
  add(waiting: QueuedJob): void {
    const { key } = waiting;
    if (this.has(key)) return;
    const look = setTimeout(() => this.#onLong(key), SUSPENDED_PATIENCE_MS).unref();
    this.#jobs.set(jobKeyText(key), { waiting, timer: look });
  }

  /** Removes and returns the job; undefined if it is not suspended. */
  take(key: JobKey): QueuedJob | undefined {
    const held = this.#jobs.get(jobKeyText(key));
    clearTimeout(held?.timer);
    this.#jobs.delete(jobKeyText(key));
    return held?.waiting;
  }

  stop(): void {
    for (const { timer: look } of this.#jobs.values()) clearTimeout(look);
    this.#jobs.clear();
  }
}

/** Jobs outside of the queue, because no room that other jobs release could make them fit. They block no other job. */
class UnfittableJobs {
  readonly #jobs = new Map<string, QueuedJob>();

  has(key: JobKey): boolean {
    return this.#jobs.has(jobKeyText(key));
  }

  add(waiting: QueuedJob): void {
    this.#jobs.set(jobKeyText(waiting.key), waiting);
  }

  /** Does nothing if the job is not here. */
  remove(key: JobKey): void {
    this.#jobs.delete(jobKeyText(key));
  }

  /** Removes and returns the jobs that fit now. */
  takeFitting(fitsNow: (demand: Demand) => boolean): QueuedJob[] {
    // Jobs of one service have the same demand, and there may be thousands of them: check each demand once.
    const fits = new Map<string, boolean>();
    const found = [...this.#jobs.values()].filter(({ demand }) => {
      const asked = `${demand.cpu}/${demand.memory}/${demand.gpu}`;
      const known = fits.get(asked) ?? fitsNow(demand);
      fits.set(asked, known);
      return known;
    });
    for (const { key } of found) this.remove(key);
    return found;
  }
}
