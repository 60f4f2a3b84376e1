import type { Cursor } from '../../lib/version.ts';
import type { JobKey } from '../../model/job/index.ts';
import { type ChangeQuery, cursorExpired, decodeCursor, encodeCursor, type JobChanges } from '../../ports/index.ts';
import type { Database, PreparedQuery } from './database.ts';
import type { JobRows } from './job-rows.ts';

/**
 * Jobs that are gone and still told of. Fewer: whoever follows the changes and was away for a moment has to list all
 * jobs again. More: each is a small row on the disk.
 */
const REMEMBERED = 10_000;

interface Gone extends JobKey {
  readonly change: number;
}

/**
 * Numbers every change of a job. Each job has the number of its last one, and those that are gone are rows of their own:
 * what changed since a number is two ranges, however often a job changed meanwhile.
 */
export class JobChangeLog {
  readonly #rows: JobRows;
  readonly #remembered: number;
  readonly #store: string;
  readonly #forgotten: PreparedQuery<{ forgotten: number }>;
  readonly #gone: PreparedQuery<Gone>;
  readonly #add: PreparedQuery<never>;
  readonly #drop: PreparedQuery<never>;
  readonly #tooOld: PreparedQuery<{ change: number }>;
  readonly #forget: PreparedQuery<never>;
  readonly #noteForgotten: PreparedQuery<never>;
  /** Of the last change. Never given again, since the newest that is gone is never forgotten. */
  #number: number;
  /**
   * Up to here all is on the disk. Beyond, a power cut may take a change back, and its number would be another's: nobody
   * may have got a cursor there.
   */
  #told: number;
  /** How many are remembered, or more: a write that is undone has been counted. */
  #kept: number;

  constructor(database: Database, rows: JobRows, remembered = REMEMBERED) {
    this.#rows = rows;
    this.#remembered = remembered;
    this.#forgotten = database.query('SELECT forgotten FROM job_changes');
    this.#gone = database.query(GONE);
    this.#add = database.query('INSERT INTO job_gone (change, service, id) VALUES (?, ?, ?)');
    this.#drop = database.query('DELETE FROM job_gone WHERE service = ? AND id = ?');
    this.#tooOld = database.query('SELECT change FROM job_gone ORDER BY change DESC LIMIT 1 OFFSET ?');
    this.#forget = database.query('DELETE FROM job_gone WHERE change <= ?');
    this.#noteForgotten = database.query('UPDATE job_changes SET forgotten = ?');
    this.#store = database.query<{ store: string }>('SELECT store FROM job_changes').get()?.store ?? '';
    this.#kept = database.query<{ kept: number }>('SELECT count(*) AS kept FROM job_gone').get()?.kept ?? 0;
    const lastGone = database.query<{ change: number }>('SELECT change FROM job_gone ORDER BY change DESC LIMIT 1');
    this.#number = Math.max(rows.lastChange(), lastGone.get()?.change ?? 0);
    this.#told = this.#number;
  }

  /** The number of the change that is being written. One that is undone leaves a gap. */
  next(): number {
    this.#number += 1;
    return this.#number;
  }

  /**
   * The number was not needed. If it were the last, nobody could tell after a restart that it was ever given, and a cursor
   * with it would be one from the future.
   */
  giveBack(number: number): void {
    if (number === this.#number) this.#number -= 1;
  }

  /** Notes that a job is there, which may have been gone. */
  comes({ service, id }: JobKey): void {
    this.#drop.run(service, id);
  }

  /** Notes that a job is gone. */
  goes({ service, id }: JobKey): void {
    this.#add.run(this.next(), service, id);
    this.#kept += 1;
    // Not at every one, since the oldest to keep has to be counted to.
    if (this.#kept > this.#remembered * 1.1) this.#prune();
  }

  /** Notes that all that was numbered is on the disk. */
  settle(): void {
    this.#told = this.#number;
  }

  read({ service, since, limit }: ChangeQuery): JobChanges {
    const last = this.#told;
    if (since === undefined) return { items: [], cursor: rowChangeCursor(this.#store, last) };
    const after = readRowChangeCursor(since, this.#store);
    const forgotten = this.#forgotten.get()?.forgotten ?? 0;
    // One from the future is of before a backup was restored.
    if (after < forgotten || after > last) throw cursorExpired();

    const wanted = Math.max(1, limit);
    const changed = this.#rows.changed({ after, upTo: last }, service, wanted + 1);
    const gone = this.#gone.all(after, last, service ?? null, service ?? null, wanted + 1);
    const both = [...changed, ...gone.map(({ change, ...key }) => ({ change, key: { ...key } }))];
    const items = both.toSorted((a, b) => a.change - b.change).slice(0, wanted);
    const reached = both.length > wanted ? items.at(-1)?.change : undefined;
    return {
      items: items.map(({ change: _, ...item }) => item),
      cursor: rowChangeCursor(this.#store, reached ?? last),
    };
  }

  #prune(): void {
    const change = this.#tooOld.get(this.#remembered)?.change;
    if (change !== undefined) {
      this.#forget.run(change);
      this.#noteForgotten.run(change);
    }
    this.#kept = this.#remembered;
  }
}

export const GONE = `
  SELECT change, service, id FROM job_gone WHERE change > ? AND change <= ? AND (? IS NULL OR service = ?)
  ORDER BY change LIMIT ?`;

/** Where a list of jobs goes on: before this job. */
export interface ListPosition {
  readonly acceptedAt: number;
  readonly seq: number;
}

/** Above every job there can be. */
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

/** The number of the last change that is known; only of a cursor that this store gave. */
function readRowChangeCursor(cursor: Cursor, store: string): number {
  const [from, change] = decodeCursor(cursor);
  if (from !== store || !Number.isSafeInteger(change)) throw cursorExpired();
  return Number(change);
}
