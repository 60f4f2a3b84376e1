import type { Demand } from '../../cluster/index.ts';
import type { Snapshot } from '../policy/index.ts';
import { RecentMean } from './recent-mean.ts';
import { Sent, type Shipment } from './sent.ts';

/** A cluster that jobs may go to, by where its manager is: two members there are one cluster. */
export interface Board {
  readonly place: string;
  /** Asks it what is free. */
  readonly ask: () => Promise<Snapshot>;
}

export interface ScoreboardOptions {
  /** Milliseconds that never go back. */
  readonly elapsed?: () => number;
  readonly chance?: () => number;
  /** Hears why a cluster did not say what is free there. */
  readonly report?: (problem: unknown, place: string) => void;
}

/** How often a cluster is asked while jobs of ours may go there. Shorter: more requests. Longer: more wrong offers. */
const BUSY_MS = 5_000;

/** And when there were none for a while: its figures are at hand, if somewhat old, when there is one again. */
const IDLE_MS = 30_000;

/** How long after the last job a cluster is busy, and how long it is asked at all. */
const BUSY_FOR_MS = 30_000;
const ASKED_FOR_MS = 10 * 60_000;

interface Row {
  board: Board;
  wantedAt: number;
  snapshot?: Snapshot;
  /** When the snapshot was asked for. What was sent since is not in it. */
  askedAt: number;
  failures: number;
  dueAt: number;
  asking: boolean;
  /** Of jobs of ours, in seconds. */
  readonly durations: RecentMean;
  readonly sent: Sent;
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
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor({ elapsed, chance, report }: ScoreboardOptions = {}) {
    this.#elapsed = elapsed ?? (() => performance.now());
    this.#chance = chance ?? Math.random;
    this.#report = report ?? (() => {});
  }

  /** There is a job that may go to one of these. */
  interested(boards: readonly Board[]): void {
    const now = this.#elapsed();
    for (const board of boards) {
      const row = this.#rows.get(board.place);
      if (!row) this.#rows.set(board.place, this.#newRow(board, now));
      else {
        Object.assign(row, { board, wantedAt: now });
        row.dueAt = Math.min(row.dueAt, this.#nextOf(row, now));
      }
    }
    this.#refresh();
  }

  /** What is known of a cluster; undefined when it never said anything. */
  snapshotOf(place: string): Snapshot | undefined {
    const row = this.#rows.get(place);
    if (!row?.snapshot) return undefined;
    const { snapshot, askedAt, durations, sent } = row;
    const meanDuration = durations.value ?? snapshot.meanDuration;
    return {
      ...snapshot,
      age: this.#elapsed() - askedAt,
      pending: snapshot.pending ?? sent.undecided,
      ...(meanDuration !== undefined && { meanDuration }),
    };
  }

  /** What was sent to a cluster and is not in its snapshot. */
  inFlightTo(place: string): Demand {
    return this.#rows.get(place)?.sent.total ?? { cpu: 0, memory: 0, gpu: 0 };
  }

  /** A job is being offered to a cluster: it counts at once, so that a burst spreads (F16). */
  send(place: string, demand: Demand): Shipment {
    return this.#rows.get(place)?.sent.add(demand) ?? NOWHERE;
  }

  /** A job of ours took so long there. */
  ended(place: string, seconds: number): void {
    this.#rows.get(place)?.durations.add(seconds);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
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
    const askedAt = this.#elapsed();
    row.asking = true;
    try {
      row.snapshot = await row.board.ask();
      row.askedAt = askedAt;
      row.failures = 0;
      row.sent.shown(askedAt);
    } catch (problem) {
      row.failures++;
      this.#report(problem, row.board.place);
    }
    const now = this.#elapsed();
    row.asking = false;
    row.dueAt = this.#nextOf(row, now);
    if (!this.#closed) this.#schedule(now);
  }

  #newRow(board: Board, now: number): Row {
    return {
      board,
      wantedAt: now,
      askedAt: now,
      failures: 0,
      dueAt: now,
      asking: false,
      durations: new RecentMean(),
      sent: new Sent(this.#elapsed),
    };
  }

  /** Never all at the same moment, and later each time that there was no answer. */
  #nextOf({ wantedAt, failures }: Row, now: number): number {
    const usual = now - wantedAt < BUSY_FOR_MS ? BUSY_MS : IDLE_MS;
    const pause = Math.min(usual * 2 ** failures, 2 * IDLE_MS);
    return now + pause * (0.75 + this.#chance() / 2);
  }
}

/** For a place that nobody was interested in. */
const NOWHERE: Shipment = { arrived: () => {}, refused: () => {} };
