import type { Cursor } from '../../lib/version.ts';
import type { JobKey } from '../../model/job/index.ts';
import { type ChangeQuery, cursorExpired, decodeCursor, encodeCursor, type JobChanges } from '../../ports/index.ts';
import type { Database, PreparedQuery } from './database.ts';
import type { JobRows } from './job-rows.ts';

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
