import type { Page, Version } from '../../lib/version.ts';
import type { JobKey, JobProgress, JobRecord, JobState, NewJob } from '../../model/job/index.ts';
import {
  type Acceptance,
  type ChangeQuery,
  type JobChanges,
  type JobQuery,
  type JobStore,
  StoreError,
  type UsageRow,
} from '../../ports/index.ts';
import { type Database, newVersion, type PreparedQuery } from './database.ts';
import {
  type FoundJob,
  JobChangeLog,
  JobRows,
  type ListedJobRow,
  type ListPosition,
  prepareJob,
  readRowCursor,
  rowCursor,
} from './job-rows.ts';

/**
 * Jobs that are read or removed in one transaction. A larger slice blocks other requests longer, 40 µs for each removed job;
 * a smaller one needs more syncs to the disk.
 */
const SLICE = 200;

export interface LocalJobStoreOptions {
  now: () => number;
  /** How many removed jobs are kept for the list of changes. */
  removedKept?: number;
  slice?: number;
}

/** The jobs in SQLite. */
export class LocalJobStore implements JobStore {
  readonly #database: Database;
  readonly #rows: JobRows;
  readonly #changes: JobChangeLog;
  readonly #usage: JobUsage;
  readonly #listeners = new Set<() => void>();
  readonly #now: () => number;
  readonly #slice: number;
  #notifying = false;

  constructor(database: Database, { now, removedKept: remembered, slice = SLICE }: LocalJobStoreOptions) {
    this.#database = database;
    this.#rows = new JobRows(database);
    this.#changes = new JobChangeLog(database, this.#rows, remembered);
    this.#usage = new JobUsage(database);
    this.#now = now;
    this.#slice = slice;
  }

  async accept(job: NewJob, progress: JobProgress, event: Uint8Array): Promise<Acceptance> {
    const prepared = prepareJob(job, progress, event, newVersion());
    const { record } = prepared;
    const accept = (): Acceptance => {
      const change = this.#changes.next();
      if (this.#rows.insert(prepared, change)) {
        this.#changes.recordCreated(record);
        return { outcome: 'created', record };
      }
      this.#changes.returnNumber(change);
      const known = this.#rows.load(record);
      return { outcome: 'exists', ...(known && { record: known.record }) };
    };
    return this.#database.write(accept, () => this.#notify());
  }

  async get(key: JobKey): Promise<JobRecord | undefined> {
    return this.#rows.load(key)?.record;
  }

  /** This process alone writes, so a normal read is fresh. */
  getFresh(key: JobKey): Promise<JobRecord | undefined> {
    return this.get(key);
  }

  async event(key: JobKey): Promise<Uint8Array | undefined> {
    return this.#rows.event(key);
  }

  async update(key: JobKey, expected: Version, change: Partial<JobProgress>): Promise<JobRecord> {
    const version = newVersion();
    const update = () => {
      const known = this.#rows.load(key);
      if (!known) throw new StoreError('absent', `job "${key.id}" of service "${key.service}" not found`);
      if (known.record.version !== expected) {
        throw new StoreError('conflict', `the job "${key.id}" was changed meanwhile: read it again`);
      }
      return this.#rows.update(known, change, version, this.#changes.next());
    };
    return this.#database.writeReserved(update, () => this.#notify());
  }

  async list(query: JobQuery): Promise<Page<JobRecord>> {
    const wanted = Math.max(1, query.limit);
    const found = this.#rows.list(query, readRowCursor(query.cursor), wanted + 1);
    const shown = found.slice(0, wanted);
    const items = shown.map(({ record }) => record);
    const last = shown.at(-1);
    return found.length > wanted && last ? { items, next: rowCursor(last) } : { items };
  }

  async *unfinished(): AsyncGenerator<JobRecord, undefined> {
    let last: ListedJobRow | undefined;
    for (;;) {
      const found: ListedJobRow[] = this.#rows.listUnfinished(
        last ?? { acceptedAt: -Number.MAX_VALUE, seq: 0 },
        this.#slice,
      );
      for (const { record } of found) yield record;
      last = found.at(-1);
      if (!last || found.length < this.#slice) return;
    }
  }

  async changes(query: ChangeQuery): Promise<JobChanges> {
    return this.#changes.read(query);
  }

  onChange(listener: () => void): () => void {
    // A new function for each call, so that a listener that is added twice can be removed once.
    const wrapped = () => listener();
    this.#listeners.add(wrapped);
    return () => this.#listeners.delete(wrapped);
  }

  async remove(key: JobKey): Promise<boolean> {
    const remove = () => {
      const found = this.#rows.find(key);
      if (!found) return false;
      if (found.standing === 'unfinished') {
        throw new StoreError('conflict', `the job "${key.id}" has not ended: cancel it first`);
      }
      this.#hideOrDelete(found);
      return true;
    };
    return this.#database.writeReserved(remove, () => this.#notify());
  }

  async removeService(serviceUid: string): Promise<JobRecord[]> {
    return this.#inSlices(Infinity, (limit) => {
      const found = this.#rows.listOfService(serviceUid, limit);
      for (const job of found) {
        this.#rows.delete(job);
        if (job.standing !== 'hidden') this.#changes.recordRemoved(job);
      }
      return found;
    });
  }

  async expire(finishedBefore: number, limit: number): Promise<JobRecord[]> {
    return this.#inSlices(limit, (slice) => {
      const found = this.#rows.listEndedBefore(finishedBefore, slice);
      for (const job of found) this.#hideOrDelete(job);
      return found;
    });
  }

  async dropTombstones(serviceUid: string, modifiedBefore: number): Promise<number> {
    let dropped = 0;
    for (;;) {
      const slice = await this.#database.writeReserved(() =>
        this.#rows.dropTombstones(serviceUid, modifiedBefore, this.#slice),
      );
      dropped += slice;
      if (slice < this.#slice) return dropped;
    }
  }

  async counts(): Promise<ReadonlyMap<JobState, number>> {
    return this.#rows.counts();
  }

  async oldestWaiting(): Promise<number | undefined> {
    return this.#rows.oldestWaiting();
  }

  async usage(range: { readonly from: number; readonly to: number }): Promise<UsageRow[]> {
    return this.#usage.sum(range, this.#now());
  }

  #hideOrDelete(job: FoundJob): void {
    if (job.trigger === 'storage' || job.record?.object) this.#rows.hide(job);
    else this.#rows.delete(job);
    this.#changes.recordRemoved(job);
  }

  /** Removes in short transactions. Resolves to the removed jobs that were visible. */
  async #inSlices(limit: number, remove: (limit: number) => FoundJob[]): Promise<JobRecord[]> {
    const removed: JobRecord[] = [];
    for (let left = limit; left > 0; ) {
      const slice = Math.min(this.#slice, left);
      const found = await this.#database.writeReserved(
        () => remove(slice),
        () => this.#notify(),
      );
      removed.push(...found.map(({ record }) => record).filter((record) => record !== undefined));
      left = found.length < slice ? 0 : left - slice;
    }
    return removed;
  }

  /** Called once for all writes of one transaction, and after it: a listener that throws rolls nothing back. */
  #notify(): void {
    this.#changes.markDurable();
    if (this.#notifying) return;
    this.#notifying = true;
    queueMicrotask(() => {
      this.#notifying = false;
      for (const listener of this.#listeners) listener();
    });
  }
}

/** Large enough that the overhead of a query does not matter, small enough to block other requests for milliseconds only. */
const USAGE_SLICE = 1_000;

interface UsedRow {
  seq: number;
  accepted_at: number;
  service: string;
  invoker: string;
  trigger: NewJob['trigger'];
  /** Millicores, GPUs, milliseconds. */
  cpu: number;
  gpu: number;
  started: number | null;
  ended: number | null;
}

interface Range {
  readonly from: number;
  readonly to: number;
}

/** Sums what jobs have used. Reads in slices, because a month of jobs may be the whole table. */
class JobUsage {
  readonly #slice: PreparedQuery<UsedRow>;

  constructor(database: Database) {
    this.#slice = database.query(USAGE);
  }

  /** A running job counts until now. */
  async sum(range: Range, now: number): Promise<UsageRow[]> {
    const sums = new Map<string, UsageRow>();
    let above: ListPosition = { acceptedAt: range.from, seq: 0 };
    for (;;) {
      const rows = this.#slice.all(above.acceptedAt, above.seq, range.to, USAGE_SLICE);
      for (const row of rows) addTo(sums, row, range, now);
      const last = rows.at(-1);
      if (!last || rows.length < USAGE_SLICE) return [...sums.values()];
      above = { acceptedAt: last.accepted_at, seq: last.seq };
      await new Promise(setImmediate);
    }
  }
}

export const USAGE = `
  SELECT seq, accepted_at, service, invoker, trigger,
    job ->> '$.demand.cpu' AS cpu, job ->> '$.demand.gpu' AS gpu,
    progress ->> '$.startedAt' AS started, coalesce(progress ->> '$.finishedAt', ended_at) AS ended
  FROM jobs WHERE standing <> 'hidden' AND (accepted_at, seq) > (?, ?) AND accepted_at < ?
  ORDER BY accepted_at, seq LIMIT ?`;

function addTo(sums: Map<string, UsageRow>, row: UsedRow, range: Range, now: number): void {
  const { service, invoker, trigger } = row;
  const key = JSON.stringify([service, invoker, trigger]);
  const sum = sums.get(key) ?? { service, invoker, trigger, jobs: 0, cpuSeconds: 0, gpuSeconds: 0 };
  const seconds = millisecondsWithin(row, range, now) / 1_000;
  sums.set(key, {
    ...sum,
    jobs: sum.jobs + 1,
    cpuSeconds: sum.cpuSeconds + (row.cpu / 1_000) * seconds,
    gpuSeconds: sum.gpuSeconds + row.gpu * seconds,
  });
}

function millisecondsWithin({ started, ended }: UsedRow, { from, to }: Range, now: number): number {
  if (started === null) return 0;
  return Math.max(0, Math.min(ended ?? now, to) - Math.max(started, from));
}
