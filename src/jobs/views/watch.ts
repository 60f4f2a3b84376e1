import { setTimeout as pause } from 'node:timers/promises';
import { type Admin, may, type User } from '../../identity/index.ts';
import type { Cursor } from '../../lib/version.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import { type ChangeQuery, type ServiceRecord, StoreError } from '../../ports/index.ts';
import { findService } from '../../services/index.ts';
import type { Jobs } from '../jobs.ts';
import { mayReadJob } from './find.ts';

/** What has changed, as far as somebody may see it. Where to go on from is the cursor. */
export interface VisibleChanges {
  readonly jobs: readonly JobRecord[];
  readonly gone: readonly JobKey[];
  readonly cursor: Cursor;
}

/** Changes that are read at a time. More: whoever reads slowly holds more of them. */
const BATCH = 200;

/**
 * How long to wait after a change for more of them. Less: while a thousand jobs run, everybody who watches reads for each
 * of them. More: people wait for what has happened already.
 */
const GATHER_MS = 50;

type Watched = Pick<Jobs, 'services' | 'store'>;

/** Where the changes stand now. Take it before a list, so that nothing falls between the list and the changes after it. */
export async function currentCursor({ store }: Pick<Jobs, 'store'>): Promise<Cursor> {
  return (await store.changes({ limit: 1 })).cursor;
}

export interface ChangesWanted {
  readonly since: Cursor;
  /** Milliseconds to wait for a change if there is none. */
  readonly wait: number;
  /** Aborts when nobody waits any more. */
  readonly signal: AbortSignal;
}

/** What has changed in the jobs of a service since then. If nothing has, waits for it. Throws `expired`. */
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
  /** All services if left out. */
  readonly service?: string;
  /** Say something at least that often, in milliseconds, even if it is that nothing has changed. */
  readonly idle: number;
}

/** Somebody has missed changes that are not known any more: they have to list again. */
export interface MissedChanges {
  readonly missed: true;
  readonly cursor: Cursor;
}

/** All changes from then on, until the signal. Whoever reads slowly gets fewer and newer ones; nothing piles up. */
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
  const ring = () => wake();
  const ends = jobs.store.onChange(ring);
  signal.addEventListener('abort', ring, { once: true });
  try {
    let cursor = since;
    while (!signal.aborted) {
      // Before reading: what happens while it is read is not slept through.
      const { promise: rung, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      const query = { since: cursor, limit: BATCH, ...(service !== undefined && { service }) };
      const { read, ...seen } = await readChanges(principal, query, jobs);
      cursor = seen.cursor;
      yield seen;
      if (read > 0) continue;
      const timer = setTimeout(resolve, idle);
      await rung;
      clearTimeout(timer);
      if (!signal.aborted) await pause(GATHER_MS);
    }
  } finally {
    signal.removeEventListener('abort', ring);
    ends();
  }
}

async function readChanges(
  principal: Admin | User,
  query: ChangeQuery,
  jobs: Watched,
): Promise<VisibleChanges & { read: number }> {
  const { items, cursor } = await jobs.store.changes(query);
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

/** Whose a job was that is gone is not known: only those are told who may delete every job of the service. */
function seesRemoved(principal: Admin | User, found: ServiceRecord | undefined): boolean {
  return principal.kind === 'admin' || (found !== undefined && may(principal, 'delete-jobs', found.service) === 'yes');
}
