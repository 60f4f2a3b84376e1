import { randomFillSync } from 'node:crypto';
import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { GroupCommit } from '../../lib/group-commit.ts';
import { LogFile } from '../../lib/log-file.ts';
import { syncDirectory } from '../../lib/sync-directory.ts';
import type { Version } from '../../lib/version.ts';
import { StoreError } from '../../ports/index.ts';
import { DataDirectoryError } from './data-directory.ts';

/**
 * How long to wait for someone else's lock. Nobody else should write here, but an operator may have the file open in a
 * shell. Shorter: a write fails although it need not. Longer: the whole manager stands still meanwhile.
 */
const LOCK_TIMEOUT = 1_000;

/** A prepared statement whose rows have a type. */
export interface PreparedQuery<Row> {
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
  iterate(...values: SQLInputValue[]): Iterable<Row>;
  run(...values: SQLInputValue[]): { changes: number | bigint };
}

/**
 * One database file, read directly and written by one queue. What is written is on the disk before its promise
 * resolves, and all writes that wait share one trip to the disk.
 *
 * A read may see a change while it is on that trip, and a power cut may then take the change back. For none of the
 * stores does that matter. Whatever is written because of such a read stands behind the change in the log, so it is
 * not kept without it. An effect outside is preceded by a write of its own, which resolves when everything before it is
 * on the disk; so does a refusal such as `exists` or `conflict`, after which a caller may drop what it came with.
 * Caches and watchers are told in `committed`, after the trip. What remains is an answer to somebody who looks at a
 * service, a job, a setting or a secret that another request is just writing, and whose writer was not answered.
 */
export class Database {
  readonly #database: DatabaseSync;
  readonly #log: LogFile;
  readonly #writes: GroupCommit;
  #closed = false;

  constructor(path: string, migrations: readonly string[] = MIGRATIONS) {
    this.#database = open(path);
    try {
      this.#database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;');
      migrate(this.#database, path, migrations);
      this.#log = new LogFile(path);
      syncDirectory(dirname(path));
    } catch (error) {
      this.#database.close();
      throw error instanceof DataDirectoryError ? error : unusable(path, error);
    }
    this.#writes = new GroupCommit({
      database: this.#database,
      log: this.#log,
      unavailable: (message, options) => new StoreError('unavailable', message, options),
    });
  }

  /** Prepares a statement: once, when the store that uses it is made. */
  query<Row = never>(sql: string): PreparedQuery<Row> {
    return this.#database.prepare(sql) as unknown as PreparedQuery<Row>;
  }

  /**
   * Runs `work` in a transaction and resolves when it is on the disk. Work that throws is undone alone. It may be run
   * twice, so it does nothing but read and write the database; what should follow a success, before anybody is told
   * and before the next transaction, is done in `committed`.
   */
  write<T>(work: () => T, committed?: (result: T) => void): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreError('unavailable', 'the manager is stopping'));
    return this.#writes.add(work, committed);
  }

  /** Finishes the writes that wait, and closes the file. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#writes.finish();
    this.#database.close();
    this.#log.close();
  }
}

function open(path: string): DatabaseSync {
  try {
    // Made here because SQLite would let everybody read it; the files beside it get the mode of this one.
    closeSync(openSync(path, 'a', 0o600));
    return new DatabaseSync(path, { timeout: LOCK_TIMEOUT, enableForeignKeyConstraints: true, defensive: true });
  } catch (error) {
    throw unusable(path, error);
  }
}

function migrate(database: DatabaseSync, path: string, migrations: readonly string[]): void {
  const row = database.prepare('PRAGMA user_version').get();
  const from = Number(row?.['user_version']);
  if (from > migrations.length) {
    throw new DataDirectoryError(
      'newer',
      `the database ${path} has schema ${from}, and this program knows up to ${migrations.length}: ` +
        'a later version has used it, start that one',
    );
  }
  for (const [index, step] of migrations.entries()) {
    if (index >= from) database.exec(`BEGIN IMMEDIATE; ${step}; PRAGMA user_version = ${index + 1}; COMMIT;`);
  }
}

function unusable(path: string, cause: unknown): DataDirectoryError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new DataDirectoryError('unusable', `the database ${path} cannot be opened: ${reason}`, { cause });
}

/**
 * The schema, as the steps that lead to it: the n-th makes version n out of version n-1. A step that was released is
 * never edited. A change of `indexTermsFor` in `ports/service-store.ts` needs a step that brings `service_terms` up to date.
 */
export const MIGRATIONS: readonly string[] = [
  `
  -- place is <namespace>/<name>: what lists are ordered by.
  CREATE TABLE services (
    name       TEXT NOT NULL PRIMARY KEY,
    place      TEXT NOT NULL,
    uid        TEXT NOT NULL,
    version    TEXT NOT NULL,
    owner      TEXT NOT NULL,
    owner_name TEXT NOT NULL,
    namespace  TEXT NOT NULL,
    token      BLOB NOT NULL,
    definition TEXT NOT NULL
  ) STRICT;

  CREATE INDEX services_by_place ON services (place, name);

  -- The key holds everything a lookup needs, so that it never touches the definitions.
  CREATE TABLE service_terms (
    term  TEXT NOT NULL,
    place TEXT NOT NULL,
    name  TEXT NOT NULL REFERENCES services (name) ON DELETE CASCADE,
    PRIMARY KEY (term, place, name)
  ) STRICT, WITHOUT ROWID;

  CREATE INDEX service_terms_by_name ON service_terms (name);

  CREATE TABLE reservations (
    name    TEXT NOT NULL PRIMARY KEY,
    uid     TEXT NOT NULL,
    made_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE secrets (
    room    TEXT NOT NULL,
    key     TEXT NOT NULL,
    version TEXT NOT NULL,
    sealed  BLOB NOT NULL,
    PRIMARY KEY (room, key)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE journal (
    key     TEXT NOT NULL PRIMARY KEY,
    version TEXT NOT NULL,
    state   TEXT NOT NULL
  ) STRICT;

  CREATE TABLE settings (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    version  TEXT NOT NULL,
    settings TEXT NOT NULL
  ) STRICT;

  -- Something sealed with the key this database belongs to.
  CREATE TABLE sealing (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    proof BLOB NOT NULL
  ) STRICT;
  `,
  `
  -- seq is the number of the change that made the job, so that no two jobs ever have the same. marked_at is when the
  -- object that caused it was modified. Times are REAL, which keeps whole numbers as such and does not refuse others.
  CREATE TABLE jobs (
    seq         INTEGER PRIMARY KEY,
    change      INTEGER NOT NULL,
    service     TEXT NOT NULL,
    id          TEXT NOT NULL,
    service_uid TEXT NOT NULL,
    invoker     TEXT NOT NULL,
    principal   TEXT NOT NULL,
    trigger     TEXT NOT NULL,
    accepted_at REAL NOT NULL,
    marked_at   REAL NOT NULL,
    standing    TEXT NOT NULL CHECK (standing IN ('unfinished', 'finished', 'hidden')),
    state       TEXT NOT NULL,
    ended_at    REAL,
    version     TEXT NOT NULL,
    event_bytes INTEGER NOT NULL,
    job         TEXT NOT NULL,
    progress    TEXT NOT NULL,
    UNIQUE (service, id)
  ) STRICT;

  -- With all that a list may ask for, so that what it leaves out is passed over without reading its row.
  CREATE INDEX jobs_listed ON jobs (service, accepted_at, seq, state, trigger, invoker, principal)
    WHERE standing <> 'hidden';
  CREATE INDEX jobs_unfinished ON jobs (accepted_at, seq, state) WHERE standing = 'unfinished';
  CREATE INDEX jobs_ended ON jobs (ended_at) WHERE standing = 'finished';
  CREATE INDEX jobs_marks ON jobs (service_uid, marked_at) WHERE standing = 'hidden';
  CREATE INDEX jobs_changed ON jobs (change, service) WHERE standing <> 'hidden';
  CREATE INDEX jobs_accepted ON jobs (accepted_at, seq);
  CREATE INDEX jobs_of_service ON jobs (service_uid);

  -- Apart, so that no list reads past it.
  CREATE TABLE job_events (
    seq   INTEGER PRIMARY KEY REFERENCES jobs (seq) ON DELETE CASCADE,
    event BLOB NOT NULL
  ) STRICT;

  CREATE TABLE job_counts (
    state TEXT NOT NULL PRIMARY KEY,
    jobs  INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE job_gone (
    change  INTEGER PRIMARY KEY,
    service TEXT NOT NULL,
    id      TEXT NOT NULL,
    UNIQUE (service, id)
  ) STRICT;

  -- store is in every cursor of changes; those up to forgotten are not known any more.
  CREATE TABLE job_changes (
    row       INTEGER PRIMARY KEY CHECK (row = 1),
    store     TEXT NOT NULL,
    forgotten INTEGER NOT NULL
  ) STRICT;

  INSERT INTO job_changes (row, store, forgotten) VALUES (1, lower(hex(randomblob(8))), 0);
  `,
  `
  -- What it is in a federation, as JSON.
  ALTER TABLE services ADD COLUMN federation TEXT;
  `,
];

const BYTES = 12;

/** Got from the system at once, because each time costs ten times what a version costs otherwise. */
const pool = Buffer.alloc(BYTES * 256);
let used = pool.length;

/** Random rather than counted, so that it does not repeat when a name is used again or a backup is restored. */
export function newVersion(): Version {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  return pool.toString('base64url', used, (used += BYTES)) as Version;
}
