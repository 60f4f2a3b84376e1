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
import { type Database, newVersion } from './database.ts';
import { JobChangeLog, readRowCursor, rowCursor } from './job-changes.ts';
import { type Found, JobRows, type ListedJobRow, prepareJob } from './job-rows.ts';
import { JobUsage } from './job-usage.ts';

/**
 * Jobs that are read or removed in one go, of many. More: everybody else waits longer, 40 µs for each that is removed.
 * Fewer: more trips to the disk.
 */
const SLICE = 200;

export interface LocalJobStoreOptions {
  now: () => number;
  /** How many jobs that are gone are told of in changes. */
  remembered?: number;
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
  #telling = false;

  constructor(database: Database, { now, remembered, slice = SLICE }: LocalJobStoreOptions) {
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
        this.#changes.comes(record);
        return { outcome: 'created', record };
      }
      this.#changes.giveBack(change);
      const known = this.#rows.load(record);
      return { outcome: 'exists', ...(known && { record: known.record }) };
    };
    return this.#database.write(accept, () => this.#tell());
  }

  async get(key: JobKey): Promise<JobRecord | undefined> {
    return this.#rows.load(key)?.record;
  }

  /** Nobody else writes here. */
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
      if (!known) throw new StoreError('absent', `there is no job "${key.id}" of "${key.service}"`);
      if (known.record.version !== expected) {
        throw new StoreError('conflict', `the job "${key.id}" was changed by someone else meanwhile: read it again`);
      }
      return this.#rows.update(known, change, version, this.#changes.next());
    };
    return this.#database.write(update, () => this.#tell());
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
      const found: ListedJobRow[] = this.#rows.unfinished(
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
    // Of its own, so that one who listens twice ends each alone.
    const listening = () => listener();
    this.#listeners.add(listening);
    return () => this.#listeners.delete(listening);
  }

  async remove(key: JobKey): Promise<boolean> {
    const remove = () => {
      const found = this.#rows.find(key);
      if (!found) return false;
      if (found.standing === 'unfinished') {
        throw new StoreError('conflict', `the job "${key.id}" has not ended: cancel it first`);
      }
      this.#takeAway(found);
      return true;
    };
    return this.#database.write(remove, () => this.#tell());
  }

  async removeService(serviceUid: string): Promise<JobRecord[]> {
    return this.#inSlices(Infinity, (limit) => {
      const found = this.#rows.ofService(serviceUid, limit);
      for (const job of found) {
        this.#rows.delete(job);
        if (job.standing !== 'hidden') this.#changes.goes(job);
      }
      return found;
    });
  }

  async expire(finishedBefore: number, limit: number): Promise<JobRecord[]> {
    return this.#inSlices(limit, (slice) => {
      const found = this.#rows.endedBefore(finishedBefore, slice);
      for (const job of found) this.#takeAway(job);
      return found;
    });
  }

  async dropTombstones(serviceUid: string, modifiedBefore: number): Promise<number> {
    let dropped = 0;
    for (;;) {
      const slice = await this.#database.write(() => this.#rows.dropMarks(serviceUid, modifiedBefore, this.#slice));
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

  #takeAway(job: Found): void {
    if (job.trigger === 'storage' || job.record?.object) this.#rows.hide(job);
    else this.#rows.delete(job);
    this.#changes.goes(job);
  }

  /** In transactions that others need not wait long for. Resolves to those that could be seen. */
  async #inSlices(limit: number, remove: (limit: number) => Found[]): Promise<JobRecord[]> {
    const removed: JobRecord[] = [];
    for (let left = limit; left > 0; ) {
      const slice = Math.min(this.#slice, left);
      const found = await this.#database.write(
        () => remove(slice),
        () => this.#tell(),
      );
      removed.push(...found.map(({ record }) => record).filter((record) => record !== undefined));
      left = found.length < slice ? 0 : left - slice;
    }
    return removed;
  }

  /** Once for all that was written together, and after it: a listener that throws undoes nothing. */
  #tell(): void {
    this.#changes.settle();
    if (this.#telling) return;
    this.#telling = true;
    queueMicrotask(() => {
      this.#telling = false;
      for (const listener of this.#listeners) listener();
    });
  }
}
