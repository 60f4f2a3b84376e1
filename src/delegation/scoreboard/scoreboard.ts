import { rootMessage } from '../../lib/oscar-error.ts';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import type { Demand } from '../../model/job/index.ts';
import { type MemberId, STALE } from '../policies/index.ts';

/**
 * A cluster to which jobs may be delegated, known by the address of its manager: two members with the same address are
 * one cluster.
 */
export interface MonitoredCluster {
  readonly endpoint: string;
  /** Asks its manager for the free capacity. */
  readonly fetchSnapshot: () => Promise<Snapshot>;
}

interface ScoreboardOptions {
  /** A monotonic clock, in milliseconds. */
  readonly elapsed?: () => number;
  /** Calls `call` once, after so many milliseconds. Returns the function that cancels it. */
  readonly after?: (ms: number, call: () => void) => () => void;
  readonly random?: () => number;
  /** Called with the error if a cluster could not be asked, unless it is the same error as the last time. */
  readonly report?: (problem: unknown, place: string) => void;
}

/**
 * What changed at a cluster. `room`: it may have more free capacity. `back`: the same, and it answers again after a
 * silence.
 */
export type ClusterChange = 'room' | 'back';

/**
 * How often a cluster is asked while jobs may go there. A smaller value sends more requests; a larger one causes more
 * wrong offers.
 */
const BUSY_MS = 5_000;

/**
 * The longest pause for a cluster that does not answer, while jobs may go there. A larger value notices its return
 * late; a smaller one sends more requests in vain.
 */
const AWAY_MS = 10_000;

/**
 * How often a cluster is asked when there were no jobs for a while, so that its figures, if somewhat old, are known
 * when the next job comes.
 */
const IDLE_MS = 30_000;

/** How long after the last job a cluster counts as busy, and how long it is asked at all. */
const BUSY_FOR_MS = 30_000;
const ASKED_FOR_MS = 10 * 60_000;

/**
 * Inputs from this size on measure the bandwidth of a link. For smaller ones the start of the script takes longer than the
 * transfer; with a larger limit, links are rarely measured.
 */
const MEASURED_BYTES = 256 * 1024;

/** How long a list of clusters counts as watched: hundreds of jobs of a service may be decided in a second. */
const WATCHED_FOR_MS = 1_000;

/** The largest number of services whose durations are known at one cluster. */
const MAX_SERVICES = 1_000;

interface Row {
  cluster: MonitoredCluster;
  watchedAt: number;
  snapshot?: Snapshot;
  /** When the figures of the snapshot were true, at the earliest. */
  shownAt: number;
  /** The free capacity and the places in the queue of the last snapshot, without what was sent since. */
  available: { readonly cpu: number; readonly queue: number };
  /** How long offers take there, in seconds. */
  readonly offers: MovingAverage;
  /** Bytes per second, from the origin's store. */
  readonly bandwidth: MovingAverage;
  failures: number;
  /** The time and the message of the last failure. */
  failedAt: number;
  failure?: string | undefined;
  /** It was unreachable and has shown a sign of life: its next answer counts as a return. */
  isReturning: boolean;
  dueAt: number;
  isAsking: boolean;
  /** Members there that rejected a job because they had no free capacity: for which demand, and when. */
  readonly full: Map<MemberId, { readonly demand: Demand; readonly reason: string; readonly at: number }>;
  /** The duration of our jobs there, in seconds. */
  readonly durations: MovingAverage;
  readonly byService: DurationsByService;
  readonly sent: InFlightJobs;
}

/**
 * The free capacity of the clusters to which jobs may go, refreshed in the background so that no job waits for it. Only
 * clusters with recent interest are asked. Figures get old, so a snapshot has an age.
 */
export class Scoreboard {
  readonly #rows = new Map<string, Row>();
  readonly #watchedAt = new WeakMap<readonly MonitoredCluster[], number>();
  readonly #elapsed: () => number;
  readonly #random: () => number;
  readonly #report: (problem: unknown, place: string) => void;
  readonly #listeners = new Set<(place: string, change: ClusterChange) => void>();
  readonly #after: (ms: number, call: () => void) => () => void;
  #cancelTimer: (() => void) | undefined;
  #closed = false;

  constructor({ elapsed, after, random, report }: ScoreboardOptions = {}) {
    this.#elapsed = elapsed ?? (() => performance.now());
    this.#after = after ?? startTimer;
    this.#random = random ?? Math.random;
    this.#report = report ?? (() => {});
  }

  /** A job may go to one of these clusters: asks them from now on. Calling it again soon with the same list is a no-op. */
  watch(clusters: readonly MonitoredCluster[]): void {
    const now = this.#elapsed();
    if (now - (this.#watchedAt.get(clusters) ?? -Infinity) < WATCHED_FOR_MS) return;
    this.#watchedAt.set(clusters, now);
    for (const cluster of clusters) {
      const row = this.#rows.get(cluster.endpoint);
      if (!row) this.#rows.set(cluster.endpoint, this.#newRow(cluster, now));
      else {
        Object.assign(row, { cluster, watchedAt: now });
        row.dueAt = Math.min(row.dueAt, this.#nextOf(row, now));
      }
    }
    this.#refresh();
  }

  /** What is known of a cluster; undefined if it has never answered. */
  snapshotFor(place: string): Snapshot | undefined {
    const row = this.#rows.get(place);
    if (!row?.snapshot) return undefined;
    const { snapshot, shownAt, durations, sent } = row;
    const meanDuration = durations.value ?? snapshot.meanDuration;
    return {
      ...snapshot,
      age: this.#elapsed() - shownAt,
      pending: snapshot.pending ?? sent.unanswered,
      ...(meanDuration !== undefined && { meanDuration }),
    };
  }

  /** Why a cluster did not answer when it was last asked; undefined if it did, or was never asked. */
  problemAt(place: string): string | undefined {
    return this.#rows.get(place)?.failure;
  }

  /**
   * The demand of jobs that were sent to a cluster and are not in its snapshot; negative if more jobs have ended there
   * since.
   */
  inFlightFor(place: string): Demand {
    const row = this.#rows.get(place);
    return row ? row.sent.totalBeyond(row.snapshot?.considering) : NOTHING;
  }

  /** How many more jobs a cluster lets wait there for room. 0 if it has not said so. */
  queueAt(place: string): number {
    const row = this.#rows.get(place);
    const isCurrent = row !== undefined && this.#elapsed() - row.shownAt <= STALE;
    return isCurrent ? (row.snapshot?.queue ?? 0) : 0;
  }

  /**
   * A cluster has told its room in a message about a job, so it need not be asked. Messages may arrive in another order
   * than they were sent: older figures than the known ones are ignored.
   */
  noteRoom(place: string, room: Snapshot): void {
    const row = this.#rows.get(place);
    const { serial } = room;
    if (!row || serial === undefined || serial <= (row.snapshot?.serial ?? -1)) return;
    const { roundTrip, total } = row.snapshot ?? {};
    row.snapshot = { ...room, ...(roundTrip !== undefined && { roundTrip }), ...(total && { total }) };
    row.shownAt = this.#elapsed();
    row.sent.onSnapshot(-Infinity, serial);
    if (this.#hasGrown(row)) {
      row.full.clear();
      this.#tell(place, 'room');
    }
  }

  /** Notes how long a cluster took to answer an offer that it accepted. */
  noteOffer(place: string, seconds: number): void {
    this.#rows.get(place)?.offers.add(seconds);
  }

  /**
   * Notes how long a cluster took from its permit until the script of a job with an input of so many bytes ran. Small inputs
   * say nothing about the link.
   */
  noteTransfer(place: string, bytes: number, seconds: number): void {
    if (bytes >= MEASURED_BYTES && seconds > 0) this.#rows.get(place)?.bandwidth.add(bytes / seconds);
  }

  /** Bytes per second that arrive at a cluster; undefined if no large input has been sent there. */
  bandwidthAt(place: string): number | undefined {
    return this.#rows.get(place)?.bandwidth.value;
  }

  /** How long a cluster takes to answer an offer, in seconds; undefined if it has accepted none. */
  offerSecondsAt(place: string): number | undefined {
    return this.#rows.get(place)?.offers.value;
  }

  /** A job is being offered to a cluster: it counts at once, so that a burst spreads over the members (F16). */
  addInFlight(place: string, demand: Demand): InFlightJob {
    const row = this.#rows.get(place);
    if (!row) return NOWHERE;
    const job = row.sent.add(demand);
    return {
      ...job,
      ended: (serial) => {
        job.ended(serial);
        row.full.clear();
        this.#tell(place, 'room');
      },
    };
  }

  /**
   * A member has rejected this demand because it has no free capacity. This counts until one of our jobs ends there or
   * the cluster is asked again.
   */
  noteNoRoom(place: string, member: MemberId, demand: Demand, reason: string): void {
    this.#rows.get(place)?.full.set(member, { demand, reason, at: this.#elapsed() });
  }

  /** Why this member has no free capacity, if it has just rejected this demand or a smaller one. */
  noRoomReason(place: string, member: MemberId, { cpu, memory, gpu }: Demand): string | undefined {
    const full = this.#rows.get(place)?.full.get(member);
    if (!full || this.#elapsed() - full.at >= BUSY_MS) return undefined;
    const { demand, reason } = full;
    return demand.cpu <= cpu && demand.memory <= memory && demand.gpu <= gpu ? reason : undefined;
  }

  /** Calls the listener when a cluster may have more free capacity. Returns the function that removes the listener. */
  onChange(listener: (place: string, change: ClusterChange) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** The manager there was silent and has answered another request: it is asked at once. */
  onReachable(place: string): void {
    const row = this.#rows.get(place);
    if (!row) return;
    row.isReturning = true;
    this.#askBy(row, this.#elapsed());
  }

  /**
   * The manager there has sent a request. If it did not answer before, it is asked at once, but not more often than a
   * cluster that answers: a manager that can send but not be reached sends many requests. `hope` is called before it is
   * asked.
   */
  onRequestFrom(place: string, hope: () => void): void {
    const row = this.#rows.get(place);
    if (!row || row.failures === 0 || row.isAsking) return;
    const now = this.#elapsed();
    const soonest = row.failedAt + BUSY_MS;
    if (soonest <= now) hope();
    this.#askBy(row, Math.max(now, soonest));
  }

  /** Notes how long a job of one of our services took there. */
  noteDuration(place: string, service: string, seconds: number): void {
    const row = this.#rows.get(place);
    if (!row) return;
    row.durations.add(seconds);
    row.byService.add(service, seconds);
  }

  /** How long jobs of this service take there, in seconds; undefined if none has ended. */
  durationAt(place: string, service: string): number | undefined {
    return this.#rows.get(place)?.byService.of(service);
  }

  close(): void {
    this.#closed = true;
    this.#cancelTimer?.();
  }

  #askBy(row: Row, time: number): void {
    row.dueAt = Math.min(row.dueAt, time);
    this.#refresh();
  }

  #tell(place: string, change: ClusterChange): void {
    for (const listener of this.#listeners) listener(place, change);
  }

  #refresh(): void {
    if (this.#closed) return;
    const now = this.#elapsed();
    for (const [place, row] of this.#rows) {
      if (now - row.watchedAt > ASKED_FOR_MS) this.#rows.delete(place);
      else if (!row.isAsking && row.dueAt <= now) void this.#ask(row);
    }
    this.#schedule(now);
  }

  #schedule(now: number): void {
    this.#cancelTimer?.();
    const due = [...this.#rows.values()].filter(({ isAsking }) => !isAsking).map(({ dueAt }) => dueAt);
    if (due.length === 0) return;
    this.#cancelTimer = this.#after(Math.max(0, Math.min(...due) - now), () => this.#refresh());
  }

  async #ask(row: Row): Promise<void> {
    row.isAsking = true;
    const change = await this.#look(row);
    const now = this.#elapsed();
    row.isAsking = false;
    row.dueAt = this.#nextOf(row, now);
    if (this.#closed) return;
    this.#schedule(now);
    if (change) this.#tell(row.cluster.endpoint, change);
  }

  /** Undefined if there was no answer. */
  async #look(row: Row): Promise<ClusterChange | undefined> {
    const askedAt = this.#elapsed();
    try {
      row.snapshot = await row.cluster.fetchSnapshot();
    } catch (problem) {
      row.failures++;
      row.failedAt = this.#elapsed();
      const failure = rootMessage(problem);
      if (failure !== row.failure) this.#report(problem, row.cluster.endpoint);
      row.failure = failure;
      return undefined;
    }
    row.sent.onSnapshot(askedAt, row.snapshot.serial);
    this.#hasGrown(row);
    for (const [member, { at }] of row.full) if (at < askedAt) row.full.delete(member);
    const isBack = row.failures > 0 || row.isReturning;
    Object.assign(row, { shownAt: askedAt, failures: 0, failure: undefined, isReturning: false });
    return isBack ? 'back' : 'room';
  }

  /** Whether the cluster has more room than when this was last called. */
  #hasGrown(row: Row): boolean {
    const { freeCpu = 0, queue = 0, considering } = row.snapshot ?? {};
    const before = row.available;
    row.available = { cpu: freeCpu - row.sent.totalBeyond(considering).cpu, queue };
    return row.available.cpu > before.cpu || queue > before.queue;
  }

  #newRow(cluster: MonitoredCluster, now: number): Row {
    return {
      cluster,
      watchedAt: now,
      shownAt: now,
      available: { cpu: 0, queue: 0 },
      offers: new MovingAverage(),
      bandwidth: new MovingAverage(),
      failures: 0,
      failedAt: -Infinity,
      isReturning: false,
      dueAt: now,
      isAsking: false,
      full: new Map(),
      durations: new MovingAverage(),
      byService: new DurationsByService(),
      sent: new InFlightJobs(this.#elapsed),
    };
  }

  /** With jitter, so that not all clusters are asked at the same moment, and with a longer pause after each failure. */
  #nextOf({ watchedAt, failures }: Row, now: number): number {
    const [usual, longest] = now - watchedAt < BUSY_FOR_MS ? [BUSY_MS, AWAY_MS] : [IDLE_MS, 2 * IDLE_MS];
    const pause = Math.min(usual * 2 ** failures, longest);
    return now + pause * (0.75 + this.#random() / 2);
  }
}

/** A timer that does not keep the process alive. */
function startTimer(ms: number, call: () => void): () => void {
  const timer = setTimeout(call, ms).unref();
  return () => clearTimeout(timer);
}

const NOTHING: Demand = { cpu: 0, memory: 0, gpu: 0 };

/** For a cluster that is not watched. */
const NOWHERE: InFlightJob = { accepted: () => {}, rejected: () => {}, ended: () => {} };

/** The capacity that one job uses at a cluster. Each call counts once, and none counts after `rejected` or `ended`. */
export interface InFlightJob {
  /**
   * The cluster accepted the job: it counts until the cluster's own snapshot includes it. Snapshots with this serial or a
   * larger one do.
   */
  accepted(serial?: number): void;
  /** The cluster did not accept the job. */
  rejected(): void;
  /**
   * The job has ended: its capacity is free, even if the last snapshot still counts it as used. Snapshots with this serial
   * or a larger one do not.
   */
  ended(serial?: number): void;
}

interface Entry {
  readonly demand: Demand;
  arrivedAt?: number;
  endedAt?: number;
  /** Of the first snapshot that shows what was last said of the job. */
  serial?: number | undefined;
  /** The last snapshot counts it as used. */
  isShown?: boolean;
}

/** The difference between a cluster's last snapshot and what is known of our jobs there since. */
export class InFlightJobs {
  /** Jobs that were sent and are not in the snapshot. */
  readonly #entries = new Set<Entry>();
  /** Jobs that are in the snapshot and have ended since. */
  readonly #returned = new Set<Entry>();
  readonly #elapsed: () => number;
  readonly #total = { ...NOTHING };
  /** The demand of the offers that have no answer yet. */
  readonly #open = { ...NOTHING };
  #unanswered = 0;
  /** Of the last snapshot, if it has one. */
  #serial = -1;

  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
  }

  /** Negative if more capacity was freed than used since the snapshot. */
  get total(): Demand {
    return { ...this.#total };
  }

  /** The total without what the cluster is considering, which cannot be more than the offers that have no answer yet. */
  totalBeyond(considering: Demand = NOTHING): Demand {
    const beyond = (dimension: keyof Demand) =>
      this.#total[dimension] - Math.min(considering[dimension], this.#open[dimension]);
    return { cpu: beyond('cpu'), memory: beyond('memory'), gpu: beyond('gpu') };
  }

  /** How many offers have no answer yet. */
  get unanswered(): number {
    return this.#unanswered;
  }

  add(demand: Demand): InFlightJob {
    this.#forgetOld();
    const entry: Entry = { demand };
    this.#entries.add(entry);
    this.#count(this.#total, demand, 1);
    this.#count(this.#open, demand, 1);
    this.#unanswered++;
    return {
      accepted: (serial) => this.#accept(entry, serial),
      rejected: () => this.#drop(entry),
      ended: (serial) => this.#end(entry, serial),
    };
  }

  /**
   * The cluster has answered a request that was sent at this time: jobs that were accepted or had ended by then are in
   * the snapshot. So are those whose serial is not larger than the snapshot's.
   */
  onSnapshot(askedAt: number, serial = -1): void {
    this.#serial = serial;
    for (const entry of this.#entries) if (this.#isIn(entry, entry.arrivedAt, askedAt)) this.#show(entry);
    this.#forgetReturned(askedAt);
  }

  #accept(entry: Entry, serial: number | undefined): void {
    if (entry.arrivedAt !== undefined || !this.#entries.has(entry)) return;
    entry.arrivedAt = this.#elapsed();
    entry.serial = serial;
    this.#answered(entry);
    if (this.#isIn(entry, entry.arrivedAt, -Infinity)) this.#show(entry);
  }

  #show(entry: Entry): void {
    this.#drop(entry);
    entry.isShown = true;
  }

  /** Does the last snapshot, which was requested at this time, show what happened to the job at that time? */
  #isIn({ serial = Infinity }: Entry, at: number | undefined, askedAt: number): boolean {
    return at !== undefined && (at < askedAt || serial <= this.#serial);
  }

  #end(entry: Entry, serial: number | undefined): void {
    if (entry.endedAt !== undefined) return;
    entry.endedAt = this.#elapsed();
    this.#drop(entry);
    entry.serial = serial;
    if (!entry.isShown || this.#isIn(entry, entry.endedAt, -Infinity)) return;
    this.#returned.add(entry);
    this.#count(this.#total, entry.demand, -1);
  }

  /** A cluster that accepts jobs and never reports its free capacity is unknown: old jobs do not count. */
  #forgetOld(): void {
    const oldest = this.#elapsed() - STALE;
    this.#forgetReturned(oldest);
    for (const entry of this.#entries) {
      if ((entry.arrivedAt ?? Infinity) >= oldest) return;
      this.#drop(entry);
    }
  }

  #forgetReturned(before: number): void {
    for (const entry of this.#returned) {
      if (!this.#isIn(entry, entry.endedAt, before)) continue;
      this.#returned.delete(entry);
      this.#count(this.#total, entry.demand, 1);
    }
  }

  #answered({ demand }: Entry): void {
    this.#unanswered--;
    this.#count(this.#open, demand, -1);
  }

  #drop(entry: Entry): void {
    if (!this.#entries.delete(entry)) return;
    if (entry.arrivedAt === undefined) this.#answered(entry);
    this.#count(this.#total, entry.demand, -1);
  }

  #count(sum: { -readonly [Dimension in keyof Demand]: number }, { cpu, memory, gpu }: Demand, sign: 1 | -1): void {
    sum.cpu += sign * cpu;
    sum.memory += sign * memory;
    sum.gpu += sign * gpu;
  }
}

/**
 * The weight of the newest value. With a larger weight one unusual job decides; with a smaller one a change is noticed
 * late.
 */
const NEWEST_COUNTS = 0.2;

/** An exponential moving average. */
export class MovingAverage {
  #value: number | undefined;

  /** Undefined before the first value. */
  get value(): number | undefined {
    return this.#value;
  }

  add(newest: number): void {
    const before = this.#value ?? newest;
    this.#value = before + (newest - before) * NEWEST_COUNTS;
  }
}

/** The durations of the jobs of each service. */
export class DurationsByService {
  readonly #services = new Map<string, MovingAverage>();

  add(service: string, seconds: number): void {
    const known = this.#services.get(service) ?? new MovingAverage();
    known.add(seconds);
    // Move it to the end: the service without jobs for the longest time is forgotten first.
    this.#services.delete(service);
    this.#services.set(service, known);
    const [oldest] = this.#services.keys();
    if (this.#services.size > MAX_SERVICES && oldest !== undefined) this.#services.delete(oldest);
  }

  /** In seconds; undefined if no job of the service has ended. */
  of(service: string): number | undefined {
    return this.#services.get(service)?.value;
  }
}
