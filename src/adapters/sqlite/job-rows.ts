import { deepFreeze } from '../../lib/json.ts';
import type { Cursor, Version } from '../../lib/version.ts';
import {
  JOB_STATES,
  type JobKey,
  type JobProgress,
  type JobRecord,
  type JobState,
  type NewJob,
  pickNewJob,
  pickProgress,
} from '../../model/job/index.ts';
import {
  type ChangeQuery,
  cursorExpired,
  decodeCursor,
  encodeCursor,
  type JobChanges,
  type JobQuery,
} from '../../ports/index.ts';
import type { Database, PreparedQuery } from './database.ts';

const FINAL: ReadonlySet<JobState> = new Set(['succeeded', 'failed', 'cancelled']);

/** Hidden rows are tombstones: only finished jobs may become one. */
type Standing = 'unfinished' | 'finished' | 'hidden';

interface Row {
  seq: number;
  accepted_at: number;
  version: Version;
  event_bytes: number;
  job: string;
  progress: string;
}

type PositionRow = Pick<Row, 'seq' | 'accepted_at'>;

interface FoundRow extends Row {
  service: string;
  id: string;
  trigger: NewJob['trigger'];
  standing: Standing;
  state: JobState;
}

/** What is needed to remove a job. */
export interface FoundJob extends JobKey {
  readonly seq: number;
  readonly trigger: NewJob['trigger'];
  readonly standing: Standing;
  readonly state: JobState;
  /** Absent for a tombstone. */
  readonly record?: JobRecord;
}

/** A record with its position in lists. */
export interface ListedJobRow extends ListPosition {
  readonly record: JobRecord;
}

export interface ChangeRange {
  readonly after: number;
  readonly upTo: number;
}

export interface ChangedJobRow {
  readonly change: number;
  readonly key: JobKey;
  readonly record: JobRecord;
}

/** A job ready to be written, and the record that a read will return. */
export interface PreparedJob {
  readonly record: JobRecord;
  readonly job: string;
  readonly progress: string;
  readonly event: Uint8Array;
}

/** Called before the transaction, to keep that short. */
export function prepareJob(job: NewJob, progress: JobProgress, event: Uint8Array, version: Version): PreparedJob {
  const packed = { job: JSON.stringify(pickNewJob(job)), progress: JSON.stringify(pickProgress(progress)) };
  const record = toJobRecord(JSON.parse(packed.job), JSON.parse(packed.progress), event.byteLength, version);
  // Copied, because the caller may reuse its buffer before it is written.
  return { ...packed, record, event: new Uint8Array(event) };
}

const ROW = 'seq, accepted_at, version, event_bytes, job, progress';

/**
 * Recent records in memory. Each job is read and changed about ten times. A larger number takes memory, about 2 KB for each;
 * if more jobs than this are active at once, their records are parsed from JSON each time.
 */
const MAX_RECENT_RECORDS = 2_000;
const FOUND = `service, id, trigger, standing, state, ${ROW}`;

/** Reads and writes the rows of jobs, their events and their counts. The rules about writing are in the job store. */
export class JobRows {
  readonly #insert: PreparedQuery<never>;
  readonly #insertEvent: PreparedQuery<never>;
  readonly #version: PreparedQuery<{ version: Version }>;
  readonly #load: PreparedQuery<Row>;
  readonly #find: PreparedQuery<FoundRow>;
  readonly #event: PreparedQuery<{ event: Uint8Array }>;
  readonly #update: PreparedQuery<never>;
  readonly #hide: PreparedQuery<never>;
  readonly #dropEvent: PreparedQuery<never>;
  readonly #delete: PreparedQuery<never>;
  readonly #count: PreparedQuery<never>;
  readonly #counts: PreparedQuery<{ state: JobState; jobs: number }>;
  readonly #list: PreparedQuery<Row>;
  readonly #atSeq: PreparedQuery<Row>;
  readonly #ofState: PreparedQuery<PositionRow>;
  readonly #ofInvoker: PreparedQuery<PositionRow>;
  readonly #ofPrincipal: PreparedQuery<PositionRow>;
  readonly #unfinished: PreparedQuery<Row>;
  readonly #ended: PreparedQuery<FoundRow>;
  readonly #ofService: PreparedQuery<FoundRow>;
  readonly #dropMarks: PreparedQuery<never>;
  readonly #oldestWaiting: PreparedQuery<{ accepted_at: number }>;
  readonly #changed: PreparedQuery<Row & { change: number }>;
  readonly #lastChange: PreparedQuery<{ change: number }>;
  /** By version, oldest first. Versions are never reused, so an entry can be useless but never wrong. */
  readonly #recentRecords = new Map<Version, ListedJobRow>();

  constructor(database: Database) {
    this.#insert = database.query(
      `INSERT INTO jobs (seq, change, service, id, service_uid, invoker, principal, trigger, accepted_at, marked_at,
         standing, state, ended_at, version, event_bytes, job, progress)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (service, id) DO NOTHING`,
    );
    this.#insertEvent = database.query('INSERT INTO job_events (seq, event) VALUES (?, ?)');
    this.#version = database.query("SELECT version FROM jobs WHERE service = ? AND id = ? AND standing <> 'hidden'");
    this.#load = database.query(`SELECT ${ROW} FROM jobs WHERE service = ? AND id = ? AND standing <> 'hidden'`);
    this.#find = database.query(`SELECT ${FOUND} FROM jobs WHERE service = ? AND id = ? AND standing <> 'hidden'`);
    this.#event = database.query(
      'SELECT event FROM job_events JOIN jobs USING (seq) WHERE jobs.service = ? AND jobs.id = ?',
    );
    this.#update = database.query(
      'UPDATE jobs SET change = ?, version = ?, standing = ?, state = ?, ended_at = ?, progress = ? WHERE seq = ?',
    );
    // A tombstone: what the job was and did is deleted, that it existed is kept.
    this.#hide = database.query("UPDATE jobs SET standing = 'hidden', job = '', progress = '' WHERE seq = ?");
    this.#dropEvent = database.query('DELETE FROM job_events WHERE seq = ?');
    this.#delete = database.query('DELETE FROM jobs WHERE seq = ?');
    this.#count = database.query(
      'INSERT INTO job_counts (state, jobs) VALUES (?, ?) ON CONFLICT DO UPDATE SET jobs = jobs + excluded.jobs',
    );
    this.#counts = database.query('SELECT state, jobs FROM job_counts');
    this.#list = database.query(LIST);
    this.#atSeq = database.query(`SELECT ${ROW} FROM jobs WHERE seq = ?`);
    this.#ofState = database.query(LIST_OF_STATE);
    this.#ofInvoker = database.query(LIST_OF_INVOKER);
    this.#ofPrincipal = database.query(LIST_OF_PRINCIPAL);
    this.#unfinished = database.query(UNFINISHED_QUERY);
    this.#ended = database.query(ENDED);
    this.#ofService = database.query(OF_SERVICE);
    this.#dropMarks = database.query(DROP_TOMBSTONES);
    this.#oldestWaiting = database.query(OLDEST_WAITING);
    this.#changed = database.query(CHANGED);
    this.#lastChange = database.query(
      "SELECT change FROM jobs WHERE standing <> 'hidden' ORDER BY change DESC LIMIT 1",
    );
  }

  /** Writes nothing and returns false if a job or a tombstone with that key exists. */
  insert({ record, job, progress, event }: PreparedJob, change: number): boolean {
    const { service, id, serviceUid, invoker, principal, trigger, acceptedAt, object, state, version } = record;
    const known = [change, change, service, id, serviceUid, invoker, principal, trigger, acceptedAt];
    const standing = [object?.modifiedAt ?? acceptedAt, toStanding(state), state, endedAt(record)];
    const inserted = this.#insert.run(...known, ...standing, version, event.byteLength, job, progress);
    if (inserted.changes !== 1) return false;
    this.#insertEvent.run(change, event);
    this.#count.run(state, 1);
    this.#cacheRecord({ seq: change, acceptedAt, record });
    return true;
  }

  load({ service, id }: JobKey): ListedJobRow | undefined {
    const version = this.#version.get(service, id)?.version;
    const kept = version && this.#recentRecords.get(version);
    if (kept) return kept;
    const row = version && this.#load.get(service, id);
    return row && this.#cacheRecord(toListedJob(row));
  }

  #cacheRecord(listed: ListedJobRow, before?: Version): ListedJobRow {
    if (before) this.#recentRecords.delete(before);
    this.#recentRecords.set(listed.record.version, listed);
    const [oldest] = this.#recentRecords.keys();
    if (this.#recentRecords.size > MAX_RECENT_RECORDS && oldest !== undefined) this.#recentRecords.delete(oldest);
    return listed;
  }

  find({ service, id }: JobKey): FoundJob | undefined {
    const row = this.#find.get(service, id);
    return row && toFoundJob(row);
  }

  event({ service, id }: JobKey): Uint8Array | undefined {
    return this.#event.get(service, id)?.event;
  }

  update(
    { seq, acceptedAt, record: old }: ListedJobRow,
    changed: Partial<JobProgress>,
    version: Version,
    change: number,
  ): JobRecord {
    // Through JSON, as if it had been read: undefined fields are dropped.
    const news = pickProgress(changed);
    const kept = Object.entries(pickProgress(old)).filter(([field]) => !Object.hasOwn(news, field));
    const progress = { ...Object.fromEntries(kept), ...JSON.parse(JSON.stringify(news)) };
    const record = toJobRecord(pickNewJob(old), progress, old.eventBytes, version);
    const { state } = record;
    this.#update.run(change, version, toStanding(state), state, endedAt(record), JSON.stringify(progress), seq);
    this.#cacheRecord({ seq, acceptedAt, record }, old.version);
    if (state !== old.state) {
      this.#count.run(old.state, -1);
      this.#count.run(state, 1);
    }
    return record;
  }

  hide({ seq, state }: FoundJob): void {
    this.#hide.run(seq);
    this.#dropEvent.run(seq);
    this.#count.run(state, -1);
  }

  /** Deletes the event too (foreign key). */
  delete({ seq, state, standing }: FoundJob): void {
    this.#delete.run(seq);
    if (standing !== 'hidden') this.#count.run(state, -1);
  }

  /** Newest first, starting below a position. */
  list(query: JobQuery, below: ListPosition, limit: number): ListedJobRow[] {
    const { service, states, triggers, concerning } = query;
    if (service === undefined) return this.#listAllServices(query, below, limit);
    const [state, trigger, user] = [toJsonList(states), toJsonList(triggers), concerning ?? null];
    const filters = [state, state, trigger, trigger, user, user, user];
    const rows = this.#list.all(service, below.acceptedAt, below.seq, ...filters, limit);
    return rows.map(toListedJob);
  }

  /** Merges the lists of the wanted states, each of which an index has in order: no other job is read. */
  #listAllServices({ states, triggers, concerning }: JobQuery, below: ListPosition, limit: number): ListedJobRow[] {
    const trigger = toJsonList(triggers);
    const rest = [below.acceptedAt, below.seq, trigger, trigger, limit] as const;
    const positions = (states ?? JOB_STATES).flatMap((state) =>
      concerning === undefined
        ? this.#ofState.all(state, ...rest)
        : [...this.#ofInvoker.all(concerning, state, ...rest), ...this.#ofPrincipal.all(concerning, state, ...rest)],
    );
    // A job of a user who is both its invoker and its principal is found twice.
    const found = new Map(positions.map((position) => [position.seq, position]));
    return [...found.values()]
      .toSorted((a, b) => b.accepted_at - a.accepted_at || b.seq - a.seq)
      .slice(0, limit)
      .flatMap(({ seq }) => this.#atSeq.all(seq))
      .map(toListedJob);
  }

  /** Oldest first, starting above a position. */
  listUnfinished(above: ListPosition, limit: number): ListedJobRow[] {
    return this.#unfinished.all(above.acceptedAt, above.seq, limit).map(toListedJob);
  }

  listEndedBefore(time: number, limit: number): FoundJob[] {
    return this.#ended.all(time, limit).map(toFoundJob);
  }

  /** Includes tombstones. */
  listOfService(serviceUid: string, limit: number): FoundJob[] {
    return this.#ofService.all(serviceUid, limit).map(toFoundJob);
  }

  dropTombstones(serviceUid: string, modifiedBefore: number, limit: number): number {
    return Number(this.#dropMarks.run(serviceUid, modifiedBefore, limit).changes);
  }

  counts(): Map<JobState, number> {
    const counted = this.#counts.all().filter(({ jobs }) => jobs > 0);
    return new Map(counted.map(({ state, jobs }) => [state, jobs]));
  }

  /** Jobs whose last change is in the range, in the order of these changes. */
  listChanged({ after, upTo }: ChangeRange, service: string | undefined, limit: number): ChangedJobRow[] {
    return this.#changed.all(after, upTo, service ?? null, service ?? null, limit).map((row) => {
      const { record } = toListedJob(row);
      return { change: row.change, key: { service: record.service, id: record.id }, record };
    });
  }

  lastChange(): number {
    return this.#lastChange.get()?.change ?? 0;
  }

  oldestWaiting(): number | undefined {
    return this.#oldestWaiting.get()?.accepted_at;
  }
}

export const LIST = `
  SELECT ${ROW} FROM jobs
  WHERE standing <> 'hidden' AND service = ? AND (accepted_at, seq) < (?, ?)
    AND (? IS NULL OR state IN (SELECT value FROM json_each(?)))
    AND (? IS NULL OR trigger IN (SELECT value FROM json_each(?)))
    AND (? IS NULL OR invoker = ? OR principal = ?)
  ORDER BY accepted_at DESC, seq DESC LIMIT ?`;
const listOf = (condition: string) => `
  SELECT seq, accepted_at FROM jobs
  WHERE standing <> 'hidden' AND ${condition} AND (accepted_at, seq) < (?, ?)
    AND (? IS NULL OR trigger IN (SELECT value FROM json_each(?)))
  ORDER BY accepted_at DESC, seq DESC LIMIT ?`;
export const LIST_OF_STATE = listOf('state = ?');
export const LIST_OF_INVOKER = listOf('invoker = ? AND state = ?');
export const LIST_OF_PRINCIPAL = listOf('principal = ? AND state = ?');
export const UNFINISHED_QUERY = `
  SELECT ${ROW} FROM jobs WHERE standing = 'unfinished' AND (accepted_at, seq) > (?, ?)
  ORDER BY accepted_at, seq LIMIT ?`;
export const ENDED = `
  SELECT ${FOUND} FROM jobs WHERE standing = 'finished' AND ended_at < ? ORDER BY ended_at LIMIT ?`;
export const OF_SERVICE = `SELECT ${FOUND} FROM jobs WHERE service_uid = ? LIMIT ?`;
export const DROP_TOMBSTONES = `
  DELETE FROM jobs WHERE seq IN (
    SELECT seq FROM jobs WHERE standing = 'hidden' AND service_uid = ? AND marked_at < ? LIMIT ?)`;
export const OLDEST_WAITING = `
  SELECT accepted_at FROM jobs WHERE standing = 'unfinished' AND state IN ('accepted', 'queued', 'offering')
  ORDER BY accepted_at, seq LIMIT 1`;
export const CHANGED = `
  SELECT change, ${ROW} FROM jobs
  WHERE standing <> 'hidden' AND change > ? AND change <= ? AND (? IS NULL OR service = ?)
  ORDER BY change LIMIT ?`;

const toJsonList = (values: readonly string[] | undefined) => (values ? JSON.stringify(values) : null);

const toStanding = (state: JobState): Standing => (FINAL.has(state) ? 'finished' : 'unfinished');

/** A job that never ran has no end of its script; it ended when it reached its state. */
function endedAt({ state, finishedAt, timeline, acceptedAt }: JobRecord): number | null {
  return FINAL.has(state) ? (finishedAt ?? timeline.at(-1)?.at ?? acceptedAt) : null;
}

function toListedJob({ seq, accepted_at: acceptedAt, version, event_bytes, job, progress }: Row): ListedJobRow {
  return { seq, acceptedAt, record: toJobRecord(JSON.parse(job), JSON.parse(progress), event_bytes, version) };
}

function toFoundJob(row: FoundRow): FoundJob {
  const { seq, service, id, trigger, standing, state } = row;
  const found = { seq, service, id, trigger, standing, state };
  return standing === 'hidden' ? found : { ...found, record: toListedJob(row).record };
}

/** Always built from the stored JSON, so that a record is the same after a write and after a read. */
function toJobRecord(job: NewJob, progress: JobProgress, eventBytes: number, version: Version): JobRecord {
  return deepFreeze({ ...job, ...progress, eventBytes, version });
}

/**
 * Removed jobs that are kept for the list of changes. With fewer, a client that follows the changes and was disconnected for
 * a moment has to list all jobs again; each takes a small row on the disk.
 */
const REMOVED_KEPT = 10_000;

interface RemovedJob extends JobKey {
  readonly change: number;
}

/**
 * Numbers every change of a job. Each job has the number of its last change, and removed jobs have rows of their own. So the
 * changes since a number are two ranges, however often a job has changed meanwhile.
 */
export class JobChangeLog {
  readonly #rows: JobRows;
  readonly #removedKept: number;
  readonly #store: string;
  readonly #forgotten: PreparedQuery<{ forgotten: number }>;
  readonly #removed: PreparedQuery<RemovedJob>;
  readonly #add: PreparedQuery<never>;
  readonly #drop: PreparedQuery<never>;
  readonly #tooOld: PreparedQuery<{ change: number }>;
  readonly #forget: PreparedQuery<never>;
  readonly #noteForgotten: PreparedQuery<never>;
  /** The number of the last change. It is never reused, because the newest removed job is always kept. */
  #number: number;
  /**
   * All changes up to this number are on the disk. A power cut may lose a later change, whose number would then be used for
   * another one, so no cursor may go beyond.
   */
  #durable: number;
  /** At least the number of removed jobs that are kept: writes that were rolled back are counted too. */
  #kept: number;

  constructor(database: Database, rows: JobRows, remembered = REMOVED_KEPT) {
    this.#rows = rows;
    this.#removedKept = remembered;
    this.#forgotten = database.query('SELECT forgotten FROM job_changes');
    this.#removed = database.query(REMOVED_JOBS);
    this.#add = database.query('INSERT INTO job_gone (change, service, id) VALUES (?, ?, ?)');
    this.#drop = database.query('DELETE FROM job_gone WHERE service = ? AND id = ?');
    this.#tooOld = database.query('SELECT change FROM job_gone ORDER BY change DESC LIMIT 1 OFFSET ?');
    this.#forget = database.query('DELETE FROM job_gone WHERE change <= ?');
    this.#noteForgotten = database.query('UPDATE job_changes SET forgotten = ?');
    this.#store = database.query<{ store: string }>('SELECT store FROM job_changes').get()?.store ?? '';
    this.#kept = database.query<{ kept: number }>('SELECT count(*) AS kept FROM job_gone').get()?.kept ?? 0;
    const lastGone = database.query<{ change: number }>('SELECT change FROM job_gone ORDER BY change DESC LIMIT 1');
    this.#number = Math.max(rows.lastChange(), lastGone.get()?.change ?? 0);
    this.#durable = this.#number;
  }

  /** The number for the next change. A change that is rolled back leaves a gap. */
  next(): number {
    this.#number += 1;
    return this.#number;
  }

  /**
   * Returns a number that was not needed. Otherwise, if it is the last one, it would be unknown after a restart, and a cursor
   * with it would be ahead of all changes.
   */
  returnNumber(number: number): void {
    if (number === this.#number) this.#number -= 1;
  }

  /** A job was created; one with the same key may have been removed before. */
  recordCreated({ service, id }: JobKey): void {
    this.#drop.run(service, id);
  }

  /** A job was removed. */
  recordRemoved({ service, id }: JobKey): void {
    this.#add.run(this.next(), service, id);
    this.#kept += 1;
    // Not at every removal, because finding the oldest row to keep means counting.
    if (this.#kept > this.#removedKept * 1.1) this.#prune();
  }

  /** All changes so far are on the disk. */
  markDurable(): void {
    this.#durable = this.#number;
  }

  read({ service, since, limit }: ChangeQuery): JobChanges {
    const last = this.#durable;
    if (since === undefined) return { items: [], cursor: rowChangeCursor(this.#store, last) };
    const after = readRowChangeCursor(since, this.#store);
    const forgotten = this.#forgotten.get()?.forgotten ?? 0;
    // A cursor that is ahead of all changes is from before a backup was restored.
    if (after < forgotten || after > last) throw cursorExpired();

    const wanted = Math.max(1, limit);
    const changed = this.#rows.listChanged({ after, upTo: last }, service, wanted + 1);
    const gone = this.#removed.all(after, last, service ?? null, service ?? null, wanted + 1);
    const both = [...changed, ...gone.map(({ change, ...key }) => ({ change, key: { ...key } }))];
    const items = both.toSorted((a, b) => a.change - b.change).slice(0, wanted);
    const reached = both.length > wanted ? items.at(-1)?.change : undefined;
    return {
      items: items.map(({ change: _, ...item }) => item),
      cursor: rowChangeCursor(this.#store, reached ?? last),
    };
  }

  #prune(): void {
    const change = this.#tooOld.get(this.#removedKept)?.change;
    if (change !== undefined) {
      this.#forget.run(change);
      this.#noteForgotten.run(change);
    }
    this.#kept = this.#removedKept;
  }
}

export const REMOVED_JOBS = `
  SELECT change, service, id FROM job_gone WHERE change > ? AND change <= ? AND (? IS NULL OR service = ?)
  ORDER BY change LIMIT ?`;

/** Where a list of jobs continues: before this job. */
export interface ListPosition {
  readonly acceptedAt: number;
  readonly seq: number;
}

/** Newer than any job. */
const NEWEST: ListPosition = { acceptedAt: Number.MAX_VALUE, seq: 0 };

export function rowCursor({ acceptedAt, seq }: ListPosition): Cursor {
  return encodeCursor(acceptedAt, seq);
}

export function readRowCursor(cursor: Cursor | undefined): ListPosition {
  if (cursor === undefined) return NEWEST;
  const [acceptedAt, seq] = decodeCursor(cursor);
  if (typeof acceptedAt !== 'number' || !Number.isSafeInteger(seq)) throw cursorExpired();
  return { acceptedAt, seq: Number(seq) };
}

function rowChangeCursor(store: string, change: number): Cursor {
  return encodeCursor(store, change);
}

/** The number of the last change that the client knows. Rejects the cursor of another store. */
function readRowChangeCursor(cursor: Cursor, store: string): number {
  const [from, change] = decodeCursor(cursor);
  if (from !== store || !Number.isSafeInteger(change)) throw cursorExpired();
  return Number(change);
}
