import type { Demand, JobKey } from '../../model/job/index.ts';
import type { Capacity, Obstacle, Runner, ServiceStore } from '../../ports/index.ts';
import { jobKeyText, type SchedulableJob } from '../jobs.ts';

/** A job that waits for room. */
export interface QueuedJob {
  readonly key: JobKey;
  /** Of its service: owners take turns, so that the thousand jobs of one do not starve the one of another. */
  readonly owner: string;
  readonly demand: Demand;
  /** Whoever caused it waits for its answer. */
  readonly call?: boolean;
}

interface Entry extends QueuedJob {
  removed: boolean;
  /** How many were started while it was the next of its owner and found no room. */
  overtaken: number;
}

/**
 * How often a job that needs more room than there is may be overtaken by smaller ones of other owners. Fewer: room stays
 * empty while the large one waits. More: on a busy cluster it waits for ever.
 */
export const MAX_OVERTAKEN = 32;

/** What becomes of one that nobody may overtake any more, and that still finds no room. */
export interface Blocked {
  readonly obstacleFor: (waiting: QueuedJob) => Obstacle;
  /** To keep room for it would not help: it is taken out of line. */
  readonly setAside: (waiting: QueuedJob) => void;
}

/** Who is next: strictly in order of arrival for one owner, in turns between owners. */
export class FairQueue {
  /** In the order of turns. An owner without a job that waits is not in it. */
  readonly #owners = new Map<string, OwnerQueue>();
  readonly #entries = new Map<string, Entry>();

  get size(): number {
    return this.#entries.size;
  }

  has(key: JobKey): boolean {
    return this.#entries.has(nameOf(key));
  }

  /** Again: nothing happens. */
  add(waiting: QueuedJob): void {
    const name = nameOf(waiting.key);
    if (this.#entries.has(name)) return;
    const entry: Entry = { ...waiting, removed: false, overtaken: 0 };
    this.#entries.set(name, entry);
    const line = this.#owners.get(waiting.owner);
    if (line) line.push(entry);
    else this.#owners.set(waiting.owner, new OwnerQueue(entry));
  }

  remove(key: JobKey): void {
    const entry = this.#entries.get(nameOf(key));
    if (!entry) return;
    entry.removed = true;
    this.#entries.delete(nameOf(key));
    if (!this.#owners.get(entry.owner)?.first) this.#owners.delete(entry.owner);
  }

  /** Takes the next one for which `reserve` finds room. */
  take(
    reserve: (waiting: QueuedJob) => boolean,
    { obstacleFor: obstacleOf, setAside }: Blocked,
  ): QueuedJob | undefined {
    const passed: Entry[] = [];
    let gpusAreKept = false;
    for (const [owner, line] of this.#owners) {
      for (let entry = line.first; entry; entry = line.first) {
        if (gpusAreKept && entry.demand.gpu > 0) break;
        if (reserve(entry)) {
          for (const each of passed) each.overtaken++;
          this.remove(entry.key);
          // To the end of the turns, if there is more.
          if (this.#owners.delete(owner) && line.first) this.#owners.set(owner, line);
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
}

/** First in, first out; what is gone is dropped when it comes to the front. */
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
    // Shifted in one go now and then, since one by one is slow for long lines.
    if (this.#head > 1024 && this.#head * 2 > this.#entries.length) {
      this.#entries = this.#entries.slice(this.#head);
      this.#head = 0;
    }
    return this.#entries[this.#head];
  }
}

const nameOf = ({ service, id }: JobKey) => `${service}/${id}`;

interface JobQueueDeps extends Omit<CallLimitsDeps, 'enqueue' | 'isQueued' | 'start'> {
  readonly capacity: Pick<Capacity, 'refusal' | 'reserve' | 'obstacle'>;
  /** It is its turn, and it has its room. */
  readonly start: (job: QueuedJob) => void;
  /** Why it waits. */
  readonly setMessage: (key: JobKey, message: string) => void;
  /** Told of each that the cluster has not let start for a while. */
  readonly onSuspendedLong: (key: JobKey) => void;
}

/**
 * Where jobs wait until they can start here: in line for room; out of it, where they hold up nobody, if no node could take
 * them, others leave no room for them or the cluster does not let them start; or behind other calls of their service.
 */
export class JobQueue {
  readonly #deps: JobQueueDeps;
  readonly #queue = new FairQueue();
  readonly #unfittable = new UnfittableJobs();
  /** For which there is too little room beside what others run. */
  readonly #blockedByOthers = new UnfittableJobs();
  readonly #suspended: SuspendedJobs;
  readonly #callLimits: CallLimits;
  #closed = false;

  constructor(deps: JobQueueDeps) {
    this.#deps = deps;
    this.#suspended = new SuspendedJobs(deps.onSuspendedLong);
    this.#callLimits = new CallLimits({
      ...deps,
      enqueue: (call) => {
        this.#queue.add(call);
        this.startFitting();
      },
      isQueued: (key) => this.#queue.has(key) || this.#blockedByOthers.has(key),
      start: (call) => {
        this.#queue.remove(call.key);
        if (!this.#closed) this.#start(call);
      },
    });
  }

  /** How many wait for room that is ours to give. */
  get size(): number {
    return this.#queue.size;
  }

  /** Is there no room for it now? */
  waitsForRoom(key: JobKey): boolean {
    return this.#unfittable.has(key) || this.#blockedByOthers.has(key) || this.#queue.has(key);
  }

  isSuspended(key: JobKey): boolean {
    return this.#suspended.has(key);
  }

  /** Again: nothing happens. What is in line already was let in since the job was read. */
  add(job: SchedulableJob): void {
    const waiting = toQueuedJob(job);
    if (job.held !== undefined) {
      if (!this.#isInLine(waiting.key)) this.#suspended.add(waiting);
      return;
    }
    this.#suspended.take(waiting.key);
    this.#admit(waiting);
  }

  /** What could not begin after all. */
  requeue(waiting: QueuedJob, held: boolean): void {
    if (held) this.#suspended.add(waiting);
    else {
      this.#enqueue(waiting);
      this.startFitting();
    }
  }

  /** The cluster may have let it start, or have changed its mind about one that waits for room. */
  onChanged(job: SchedulableJob): void {
    const waiting = toQueuedJob(job);
    if (job.held === undefined) {
      if (this.#suspended.take(waiting.key)) this.#admit(waiting);
    } else if (this.#isInLine(waiting.key)) {
      this.remove(waiting.key);
      this.#callLimits.remove(waiting.key);
      this.#suspended.add(waiting);
    }
  }

  /** It does not wait any more. Of one that is not here: nothing. */
  remove(key: JobKey): void {
    this.#queue.remove(key);
    this.#unfittable.remove(key);
    this.#blockedByOthers.remove(key);
    this.#suspended.take(key);
  }

  /** A call that runs already, whatever its service says. */
  addRunningCall(job: SchedulableJob): void {
    this.#callLimits.addRunning(toQueuedJob(job));
  }

  /** It does not run any more, if it did: the next call of its service may. */
  releaseCall(key: JobKey): void {
    this.#callLimits.remove(key);
  }

  /** There may be more room than before: also for those that were too large for a cluster that has grown since. */
  onCapacityFreed(): void {
    const { capacity, setMessage: explain } = this.#deps;
    const back = this.#blockedByOthers.takeFitting((demand) => capacity.obstacle(demand) !== 'others');
    const fitting = this.#unfittable.takeFitting((demand) => capacity.refusal(demand) === undefined);
    for (const { key } of [...back, ...fitting]) explain(key, 'waits for room');
    for (const waiting of back) this.#queue.add(waiting);
    for (const waiting of fitting) this.#enqueue(waiting);
    this.startFitting();
  }

  /** Begins whatever has room now. */
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

  /** Nobody begins any more. */
  close(): void {
    this.#closed = true;
    this.#callLimits.stop();
    this.#suspended.stop();
  }

  readonly #blocked: Blocked = {
    obstacleFor: ({ demand }) => this.#deps.capacity.obstacle(demand),
    setAside: (waiting) => {
      this.#blockedByOthers.add(waiting);
      this.#deps.setMessage(waiting.key, ASIDE);
    },
  };

  /** Or was. */
  #isInLine(key: JobKey): boolean {
    return this.#queue.has(key) || this.#blockedByOthers.has(key);
  }

  #start(waiting: QueuedJob): void {
    this.#unfittable.remove(waiting.key);
    this.#blockedByOthers.remove(waiting.key);
    this.#deps.start(waiting);
  }

  /** In line, if there could be room for it. */
  #admit(waiting: QueuedJob): void {
    const refusal = this.#deps.capacity.refusal(waiting.demand);
    if (refusal === undefined) this.#enqueue(waiting);
    else {
      // In line it would hold up everything of its owner. It waits in its record, where it can be seen and cancelled.
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

const ASIDE = 'waits: what others run in the cluster leaves too little room for it, or its nodes take no work now';

const toQueuedJob = ({ service, id, owner, demand, trigger }: SchedulableJob): QueuedJob => ({
  key: { service, id },
  owner,
  demand,
  call: trigger === 'run',
});

/** Where calls go that may run. */
interface CallLimitsDeps {
  readonly services: Pick<ServiceStore, 'get'>;
  readonly runner: Pick<Runner, 'standby'>;
  /** It waits for room, like any job. */
  readonly enqueue: (call: QueuedJob) => void;
  readonly isQueued: (key: JobKey) => boolean;
  /** It has its place, and begins, whether it waited for room or not. */
  readonly start: (call: QueuedJob) => void;
  readonly report: (problem: unknown, key: JobKey) => void;
}

interface ServiceCalls {
  /** In the order in which they came. */
  readonly waiting: Map<string, QueuedJob>;
  /** Those that were let through: they run, or wait for room. */
  readonly admitted: Map<string, QueuedJob>;
}

/**
 * The calls of `/run`, whose callers wait for the answer. Of each service so many are let through at once as it says
 * (`synchronous.max_scale`), and the others wait here, so that they hold up nothing else of their owner. For one that is
 * let through a place may be ready (`synchronous.min_scale`): then it needs no room.
 */
class CallLimits {
  readonly #deps: CallLimitsDeps;
  readonly #services = new Map<string, ServiceCalls>();
  readonly #unsubscribe: (() => void) | undefined;

  constructor(deps: CallLimitsDeps) {
    this.#deps = deps;
    this.#unsubscribe = deps.runner.standby?.onReady((service) => this.#onStandbyReady(service));
  }

  /** Again: nothing happens. */
  add(call: QueuedJob): void {
    const { waiting, admitted: through } = this.#callsFor(call.key.service);
    const name = jobKeyText(call.key);
    if (through.has(name) || waiting.has(name)) return;
    waiting.set(name, call);
    this.#admitNextSoon(call.key);
  }

  /** It runs already, whatever its service says. */
  addRunning(call: QueuedJob): void {
    this.#callsFor(call.key.service).admitted.set(jobKeyText(call.key), call);
  }

  /** It has ended, or does not want to run any more. Of one that is not known: nothing. */
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
    // Only now: others may have been let through, or have left, meanwhile.
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

  /** A service that is gone bounds nothing: its jobs end by that. Nor does one that cannot be read: calls would hang. */
  async #maxScale(name: string): Promise<number> {
    const found = await this.#deps.services.get(name).catch((problem: unknown) => {
      this.#deps.report(problem, { service: name, id: '' });
      return undefined;
    });
    return found?.service.definition.synchronous.max_scale || Number.POSITIVE_INFINITY;
  }

  /** A place is ready: it is for the first that waits for room. */
  #onStandbyReady(service: string): void {
    for (const call of this.#services.get(service)?.admitted.values() ?? []) {
      if (!this.#deps.isQueued(call.key)) continue;
      if (this.#deps.runner.standby?.claim(call.key)) this.#deps.start(call);
      return;
    }
  }
}

/**
 * How long a job may be held back before that counts as no room. Less: jobs are offered to other clusters which this one is
 * just about to let in, since who decides takes some tenths of a second for each. More: a job waits here that could run
 * elsewhere.
 */
export const SUSPENDED_PATIENCE_MS = 2_000;

interface SuspendedJob {
  readonly waiting: QueuedJob;
  readonly timer: NodeJS.Timeout;
}

/** Jobs that the cluster does not let start yet, whatever room there is. They hold up nobody. */
class SuspendedJobs {
  readonly #jobs = new Map<string, SuspendedJob>();
  readonly #onLong: (key: JobKey) => void;

  /** Told of each that is still here after a while. */
  constructor(isLong: (key: JobKey) => void) {
    this.#onLong = isLong;
  }

  has(key: JobKey): boolean {
    return this.#jobs.has(jobKeyText(key));
  }

  /** Again: nothing happens. */
  add(waiting: QueuedJob): void {
    const { key } = waiting;
    if (this.has(key)) return;
    const look = setTimeout(() => this.#onLong(key), SUSPENDED_PATIENCE_MS).unref();
    this.#jobs.set(jobKeyText(key), { waiting, timer: look });
  }

  /** Of one that is not here: undefined. */
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

/** Jobs that do not stand in line, because waiting there would not help them. They hold up nobody. */
class UnfittableJobs {
  readonly #jobs = new Map<string, QueuedJob>();

  has(key: JobKey): boolean {
    return this.#jobs.has(jobKeyText(key));
  }

  add(waiting: QueuedJob): void {
    this.#jobs.set(jobKeyText(waiting.key), waiting);
  }

  /** Of one that is not here: nothing. */
  remove(key: JobKey): void {
    this.#jobs.delete(jobKeyText(key));
  }

  /** Takes out those that it would help by now. */
  takeFitting(fitsNow: (demand: Demand) => boolean): QueuedJob[] {
    // Those of one service ask for the same, and there may be thousands.
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
