import { setTimeout as pause } from 'node:timers/promises';
import { type Admin, may, type User } from '../../identity/index.ts';
import type { Cursor } from '../../lib/version.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import { type ChangeQuery, type JobChanges, type JobStore, type ServiceRecord, StoreError } from '../../ports/index.ts';
import { findService } from '../../services/index.ts';
import type { Jobs } from '../jobs.ts';
import { mayReadJob } from './find.ts';

/** The changes that a principal may see. `cursor` is where to continue. */
export interface VisibleChanges {
  readonly jobs: readonly JobRecord[];
  readonly gone: readonly JobKey[];
  readonly cursor: Cursor;
}

/** Changes per read. With more, a slow reader holds more of them in memory. */
const BATCH = 200;

/**
 * How long to wait after a change for further ones. With a shorter time every watcher reads once per change while a thousand
 * jobs run; with a longer one users see changes later.
 */
const GATHER_MS = 50;

type Watched = Pick<Jobs, 'services' | 'store'>;

/** The current cursor. Take it before a list, so that no change is missed between the list and the watch. */
export async function currentCursor({ store }: Pick<Jobs, 'store'>): Promise<Cursor> {
  return (await store.changes({ limit: 1 })).cursor;
}

export interface ChangesWanted {
  readonly since: Cursor;
  /** Milliseconds to wait for a change if there is none. */
  readonly wait: number;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

/** The changes of the jobs of a service since the cursor. If there are none, waits for some. Throws `expired`. */
export async function changedJobs(
  principal: Admin | User,
  service: string,
  { since, wait, signal }: ChangesWanted,
  jobs: Watched,
): Promise<VisibleChanges> {
  await findService(principal, 'read-jobs', service, jobs);
  const over = new AbortController();
  const end = () => over.abort();
  signal.addEventListener('abort', end, { once: true });
  const timer = setTimeout(end, signal.aborted ? 0 : wait);
  let last: VisibleChanges = { jobs: [], gone: [], cursor: since };
  try {
    for await (const seen of watchJobs(principal, { service, since, idle: wait, signal: over.signal }, jobs)) {
      last = seen;
      if (signal.aborted || seen.jobs.length > 0 || seen.gone.length > 0) break;
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
  }
  return { jobs: last.jobs, gone: last.gone, cursor: last.cursor };
}

export interface WatchOptions {
  readonly since: Cursor;
  readonly signal: AbortSignal;
  /** Default: all services. */
  readonly service?: string;
  /** Yield at least this often, in milliseconds, even without changes. */
  readonly idle: number;
}

/** Changes were missed that are no longer known: the client must list again. */
export interface MissedChanges {
  readonly missed: true;
  readonly cursor: Cursor;
}

/** All changes since the cursor, until the signal aborts. A slow reader gets fewer and newer ones; nothing is queued for it. */
export async function* followJobs(
  principal: Admin | User,
  options: WatchOptions,
  jobs: Watched,
): AsyncGenerator<VisibleChanges | MissedChanges, undefined> {
  let { since } = options;
  while (!options.signal.aborted) {
    try {
      for await (const seen of watchJobs(principal, { ...options, since }, jobs)) yield seen;
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'expired') throw error;
      since = await currentCursor(jobs);
      yield { missed: true, cursor: since };
    }
  }
}

async function* watchJobs(
  principal: Admin | User,
  { service, since, idle, signal }: WatchOptions,
  jobs: Watched,
): AsyncGenerator<VisibleChanges, undefined> {
  let wake = () => {};
  const wakeUp = () => wake();
  const leave = sharedReadsFor(jobs.store).join(wakeUp);
  signal.addEventListener('abort', wakeUp, { once: true });
  try {
    let cursor = since;
    while (!signal.aborted) {
      // Set up the wake-up before reading, so that a change during the read is not missed.
      const { promise: woken, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      const query = { since: cursor, limit: BATCH, ...(service !== undefined && { service }) };
      const { read, ...seen } = await readChanges(principal, query, jobs);
      cursor = seen.cursor;
      yield seen;
      if (read > 0) continue;
      const timer = setTimeout(resolve, idle);
      await woken;
      clearTimeout(timer);
      if (!signal.aborted) await pause(GATHER_MS);
    }
  } finally {
    signal.removeEventListener('abort', wakeUp);
    leave();
  }
}

/** Reads that are kept for other watchers. More: more records in memory. Fewer: watchers that lag behind share less. */
const MAX_SHARED = 8;

/**
 * Watchers that are at the same place share one read, and so the same records: a hundred open pages cost the store no more than
 * one. A change invalidates all shared reads.
 */
class SharedReads {
  readonly #store: JobStore;
  readonly #reads = new Map<string, Promise<JobChanges>>();
  readonly #watchers = new Set<() => void>();
  #ends = () => {};

  constructor(store: JobStore) {
    this.#store = store;
  }

  /** Calls `wake` at every change. The store is observed while there are watchers. Returns what ends one. */
  join(wake: () => void): () => void {
    if (this.#watchers.size === 0) this.#ends = this.#store.onChange(() => this.#changed());
    this.#watchers.add(wake);
    return () => {
      this.#watchers.delete(wake);
      if (this.#watchers.size > 0) return;
      this.#ends();
      this.#reads.clear();
    };
  }

  #changed(): void {
    this.#reads.clear();
    for (const wake of this.#watchers) wake();
  }

  read(query: ChangeQuery): Promise<JobChanges> {
    const key = JSON.stringify([query.service, query.since, query.limit]);
    const shared = this.#reads.get(key);
    if (shared) return shared;
    const read = this.#store.changes(query);
    this.#reads.set(key, read);
    const [oldest] = this.#reads.keys();
    if (this.#reads.size > MAX_SHARED && oldest !== undefined) this.#reads.delete(oldest);
    // A failed read, such as one of an expired cursor, is not shared with later watchers.
    read.catch(() => this.#reads.delete(key));
    return read;
  }
}

const sharedReads = new WeakMap<JobStore, SharedReads>();

function sharedReadsFor(store: JobStore): SharedReads {
  const reads = sharedReads.get(store) ?? new SharedReads(store);
  sharedReads.set(store, reads);
  return reads;
}

async function readChanges(
  principal: Admin | User,
  query: ChangeQuery,
  jobs: Watched,
): Promise<VisibleChanges & { read: number }> {
  const { items, cursor } = await sharedReadsFor(jobs.store).read(query);
  const names = [...new Set(items.map(({ key }) => key.service))];
  const services = new Map(
    await Promise.all(names.map(async (name) => [name, await jobs.services.get(name)] as const)),
  );
  const seen: JobRecord[] = [];
  const gone: JobKey[] = [];
  for (const { key, record } of items) {
    const service = services.get(key.service);
    if (!record) {
      if (seesRemoved(principal, service)) gone.push(key);
    } else if (service && service.service.uid === record.serviceUid && mayReadJob(principal, record, service)) {
      seen.push(record);
    }
  }
  return { jobs: seen, gone, cursor, read: items.length };
}

/** The owner of a removed job is not known, so only principals that may delete all jobs of the service see its removal. */
function seesRemoved(principal: Admin | User, found: ServiceRecord | undefined): boolean {
  return principal.kind === 'admin' || (found !== undefined && may(principal, 'delete-jobs', found.service) === 'yes');
}
