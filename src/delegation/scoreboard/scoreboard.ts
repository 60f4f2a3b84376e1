import { rootMessage } from '../../lib/oscar-error.ts';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import type { Demand } from '../../model/job/index.ts';
import { type MemberId, STALE } from '../policies/index.ts';

/** A cluster that jobs may go to, by where its manager is: two members there are one cluster. */
interface MonitoredCluster {
  readonly endpoint: string;
  /** Asks it what is free. */
  readonly fetchSnapshot: () => Promise<Snapshot>;
}

interface ScoreboardOptions {
  /** Milliseconds that never go back. */
  readonly elapsed?: () => number;
  readonly random?: () => number;
  /** Hears why a cluster did not say what is free there, unless that is the same as the last time. */
  readonly report?: (problem: unknown, place: string) => void;
}

/**
 * What was learned of a cluster. `room`: there may be more room than before. `back`: the same, and it answers again after it
 * did not.
 */
export type ClusterChange = 'room' | 'back';

/** How often a cluster is asked while jobs of ours may go there. Shorter: more requests. Longer: more wrong offers. */
const BUSY_MS = 5_000;

/** The longest pause while jobs may go to a cluster that does not answer. Longer: its return is noticed late. */
const AWAY_MS = 10_000;

/** And when there were none for a while: its figures are at hand, if somewhat old, when there is one again. */
const IDLE_MS = 30_000;

/** How long after the last job a cluster is busy, and how long it is asked at all. */
const BUSY_FOR_MS = 30_000;
const ASKED_FOR_MS = 10 * 60_000;

interface Row {
  board: MonitoredCluster;
  wantedAt: number;
  snapshot?: Snapshot;
  /** When the snapshot was asked for. What was sent since is not in it. */
  askedAt: number;
  failures: number;
  /** When it was last asked in vain, and what was said of that. */
  failedAt: number;
  failure?: string | undefined;
  /** It was away and shows a sign of life: its next answer is a return. */
  isReturning: boolean;
  dueAt: number;
  asking: boolean;
  /** Members there that had no room, for which demand, and when they said so. */
  readonly full: Map<MemberId, { readonly demand: Demand; readonly reason: string; readonly at: number }>;
  /** Of jobs of ours, in seconds. */
  readonly durations: MovingAverage;
  readonly sent: InFlightJobs;
}

/**
 * What is free on the clusters that jobs may go to, kept up to date in the background so that no job waits for it. Only
 * clusters that somebody is interested in are asked; what they say ages, and how old it is belongs to what is known.
 */
export class Scoreboard {
  readonly #rows = new Map<string, Row>();
  readonly #elapsed: () => number;
  readonly #chance: () => number;
  readonly #report: (problem: unknown, place: string) => void;
  readonly #listeners = new Set<(place: string, change: ClusterChange) => void>();
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor({ elapsed, random, report }: ScoreboardOptions = {}) {
    this.#elapsed = elapsed ?? (() => performance.now());
    this.#chance = random ?? Math.random;
    this.#report = report ?? (() => {});
  }

  /** There is a job that may go to one of these. */
  watch(boards: readonly MonitoredCluster[]): void {
    const now = this.#elapsed();
    for (const board of boards) {
      const row = this.#rows.get(board.endpoint);
      if (!row) this.#rows.set(board.endpoint, this.#newRow(board, now));
      else {
        Object.assign(row, { board, wantedAt: now });
        row.dueAt = Math.min(row.dueAt, this.#nextOf(row, now));
      }
    }
    this.#refresh();
  }

  /** What is known of a cluster; undefined when it never said anything. */
  snapshotFor(place: string): Snapshot | undefined {
    const row = this.#rows.get(place);
    if (!row?.snapshot) return undefined;
    const { snapshot, askedAt, durations, sent } = row;
    const meanDuration = durations.value ?? snapshot.meanDuration;
    return {
      ...snapshot,
      age: this.#elapsed() - askedAt,
      pending: snapshot.pending ?? sent.unanswered,
      ...(meanDuration !== undefined && { meanDuration }),
    };
  }

  /** What was sent to a cluster and is not in its snapshot; below zero when more has ended there since. */
  inFlightFor(place: string): Demand {
    return this.#rows.get(place)?.sent.total ?? { cpu: 0, memory: 0, gpu: 0 };
  }

  /** A job is being offered to a cluster: it counts at once, so that a burst spreads (F16). */
  addInFlight(place: string, demand: Demand): InFlightJob {
    const row = this.#rows.get(place);
    if (!row) return NOWHERE;
    const shipment = row.sent.add(demand);
    return {
      ...shipment,
      ended: () => {
        shipment.ended();
        row.full.clear();
        this.#tell(place, 'room');
      },
    };
  }

  /** A member there has no room for this. It is believed until a job of ours ends there or the cluster is asked again. */
  noteNoRoom(place: string, member: MemberId, demand: Demand, reason: string): void {
    this.#rows.get(place)?.full.set(member, { demand, reason, at: this.#elapsed() });
  }

  /** Why this member has no room, if it just said that it has none for this or for less. */
  noRoomReason(place: string, member: MemberId, { cpu, memory, gpu }: Demand): string | undefined {
    const full = this.#rows.get(place)?.full.get(member);
    if (!full || this.#elapsed() - full.at >= BUSY_MS) return undefined;
    const { demand, reason } = full;
    return demand.cpu <= cpu && demand.memory <= memory && demand.gpu <= gpu ? reason : undefined;
  }

  /** Calls it whenever there may be more room somewhere. What it returns undoes that. */
  onChange(listener: (place: string, change: ClusterChange) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** The manager there was silent, and has answered somebody: it is asked at once. */
  onReachable(place: string): void {
    const row = this.#rows.get(place);
    if (!row) return;
    row.isReturning = true;
    this.#askBy(row, this.#elapsed());
  }

  /**
   * The manager there has asked for something. If it did not answer before, it is asked at once, but not more often than a
   * cluster that answers: one that speaks and cannot be reached speaks a lot. `hope` is called before that.
   */
  onRequestFrom(place: string, hope: () => void): void {
    const row = this.#rows.get(place);
    if (!row || row.failures === 0 || row.asking) return;
    const now = this.#elapsed();
    const soonest = row.failedAt + BUSY_MS;
    if (soonest <= now) hope();
    this.#askBy(row, Math.max(now, soonest));
  }

  /** A job of ours took so long there. */
  noteDuration(place: string, seconds: number): void {
    this.#rows.get(place)?.durations.add(seconds);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
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
      if (now - row.wantedAt > ASKED_FOR_MS) this.#rows.delete(place);
      else if (!row.asking && row.dueAt <= now) void this.#ask(row);
    }
    this.#schedule(now);
  }

  #schedule(now: number): void {
    clearTimeout(this.#timer);
    const due = [...this.#rows.values()].filter(({ asking }) => !asking).map(({ dueAt }) => dueAt);
    if (due.length === 0) return;
    this.#timer = setTimeout(() => this.#refresh(), Math.max(0, Math.min(...due) - now));
    this.#timer.unref();
  }

  async #ask(row: Row): Promise<void> {
    row.asking = true;
    const change = await this.#look(row);
    const now = this.#elapsed();
    row.asking = false;
    row.dueAt = this.#nextOf(row, now);
    if (this.#closed) return;
    this.#schedule(now);
    if (change) this.#tell(row.board.endpoint, change);
  }

  /** Undefined when there was no answer. */
  async #look(row: Row): Promise<ClusterChange | undefined> {
    const askedAt = this.#elapsed();
    try {
      row.snapshot = await row.board.fetchSnapshot();
    } catch (problem) {
      row.failures++;
      row.failedAt = this.#elapsed();
      const failure = rootMessage(problem);
      if (failure !== row.failure) this.#report(problem, row.board.endpoint);
      row.failure = failure;
      return undefined;
    }
    row.sent.onSnapshot(askedAt);
    for (const [member, { at }] of row.full) if (at < askedAt) row.full.delete(member);
    const isBack = row.failures > 0 || row.isReturning;
    Object.assign(row, { askedAt, failures: 0, failure: undefined, isReturning: false });
    return isBack ? 'back' : 'room';
  }

  #newRow(board: MonitoredCluster, now: number): Row {
    return {
      board,
      wantedAt: now,
      askedAt: now,
      failures: 0,
      failedAt: -Infinity,
      isReturning: false,
      dueAt: now,
      asking: false,
      full: new Map(),
      durations: new MovingAverage(),
      sent: new InFlightJobs(this.#elapsed),
    };
  }

  /** Never all at the same moment, and later each time that there was no answer. */
  #nextOf({ wantedAt, failures }: Row, now: number): number {
    const [usual, longest] = now - wantedAt < BUSY_FOR_MS ? [BUSY_MS, AWAY_MS] : [IDLE_MS, 2 * IDLE_MS];
    const pause = Math.min(usual * 2 ** failures, longest);
    return now + pause * (0.75 + this.#chance() / 2);
  }
}

/** For a place that nobody was interested in. */
const NOWHERE: InFlightJob = { accepted: () => {}, rejected: () => {}, ended: () => {} };

/** One job on its way to a cluster, and there. Each call counts once, and none after `refused` or `ended`. */
export interface InFlightJob {
  /** The cluster took it: it counts until the cluster's own snapshot shows it. */
  accepted(): void;
  /** The cluster did not take it. */
  rejected(): void;
  /** It has ended there: its room is free again, also while the last snapshot still shows it as taken. */
  ended(): void;
}

interface Entry {
  readonly demand: Demand;
  arrivedAt?: number;
  endedAt?: number;
  /** The last snapshot counts it as taken. */
  isShown?: boolean;
}

/** The difference between what one cluster said of itself last, and what is known of our jobs there since. */
export class InFlightJobs {
  /** Sent, and not in the snapshot. */
  readonly #entries = new Set<Entry>();
  /** In the snapshot, and ended since. */
  readonly #returned = new Set<Entry>();
  readonly #elapsed: () => number;
  readonly #total = { cpu: 0, memory: 0, gpu: 0 };

  constructor(elapsed: () => number) {
    this.#elapsed = elapsed;
  }

  /** Below zero when more room was given back since the snapshot than was taken. */
  get total(): Demand {
    return { ...this.#total };
  }

  /** How many were offered and not answered yet. */
  get unanswered(): number {
    return [...this.#entries].filter(({ arrivedAt }) => arrivedAt === undefined).length;
  }

  add(demand: Demand): InFlightJob {
    this.#forgetOld();
    const entry: Entry = { demand };
    this.#entries.add(entry);
    this.#count(demand, 1);
    return {
      accepted: () => void (entry.arrivedAt ??= this.#elapsed()),
      rejected: () => this.#drop(entry),
      ended: () => this.#end(entry),
    };
  }

  /** The cluster has said what is free, asked at this moment: what had arrived or ended by then is in it. */
  onSnapshot(askedAt: number): void {
    for (const entry of this.#entries) {
      if ((entry.arrivedAt ?? Infinity) >= askedAt) continue;
      this.#drop(entry);
      entry.isShown = true;
    }
    this.#forgetReturned(askedAt);
  }

  #end(entry: Entry): void {
    if (entry.endedAt !== undefined) return;
    entry.endedAt = this.#elapsed();
    this.#drop(entry);
    if (!entry.isShown) return;
    this.#returned.add(entry);
    this.#count(entry.demand, -1);
  }

  /** A cluster that takes jobs and never says what is free is unknown: what it was sent counts for nothing. */
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
      if ((entry.endedAt ?? Infinity) >= before) return;
      this.#returned.delete(entry);
      this.#count(entry.demand, 1);
    }
  }

  #drop(entry: Entry): void {
    if (this.#entries.delete(entry)) this.#count(entry.demand, -1);
  }

  #count({ cpu, memory, gpu }: Demand, sign: 1 | -1): void {
    this.#total.cpu += sign * cpu;
    this.#total.memory += sign * memory;
    this.#total.gpu += sign * gpu;
  }
}

/** Each new value counts this much. More: one odd job decides. Less: what has changed is noticed late. */
const NEWEST_COUNTS = 0.2;

/** The mean of values, of which the newest count most. */
export class MovingAverage {
  #value: number | undefined;

  /** Undefined when there was none yet. */
  get value(): number | undefined {
    return this.#value;
  }

  add(newest: number): void {
    const before = this.#value ?? newest;
    this.#value = before + (newest - before) * NEWEST_COUNTS;
  }
}
