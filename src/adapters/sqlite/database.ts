import { randomFillSync } from 'node:crypto';
import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { DatabaseFile } from '../../lib/database-file.ts';
import { DiskReserve, isDiskFull, SMALL_LOG } from '../../lib/disk-space.ts';
import { GroupCommit, LogFile } from '../../lib/group-commit.ts';
import { syncDirectory } from '../../lib/sync-directory.ts';
import type { Version } from '../../lib/version.ts';
import { StoreError } from '../../ports/index.ts';
import { DataDirectoryError } from './data-directory.ts';

/**
 * How long to wait for a lock of another process, such as the SQLite shell of an operator. A shorter time fails writes that
 * could succeed; a longer one blocks the whole manager meanwhile.
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
 * One database file, read directly and written through one queue. A write is on the disk before its promise resolves, and
 * all queued writes share one sync (group commit).
 *
 * A read may see a change before the sync, and a power cut may then lose that change. This is safe for all stores:
 *
 * - A write that depends on such a read is behind the change in the log, so it is lost together with it.
 * - Every external effect is preceded by its own write, which resolves when everything before it is on the disk.
 * - A rejection such as `exists` or `conflict` also waits for the sync, because the caller may then drop what it has.
 * - Caches and watchers are notified in `committed`, after the sync.
 *
 * The only remaining case: a request reads a service, job, setting or secret that another request is writing, and after a
 * power cut the answer that it gave is no longer true. The writer itself had not been answered.
 */
export class Database {
  readonly #database: DatabaseSync;
  readonly #log: LogFile;
  readonly #reserve: DiskReserve;
  readonly #writes: GroupCommit;
  #closed = false;

  readonly #file: DatabaseFile;

  /** `usedBefore` is a file that exists once the database has been used. */
  constructor(path: string, migrations: readonly string[] = MIGRATIONS, usedBefore = `${path}-in-use`) {
    this.#file = new DatabaseFile(path);
    const loss = this.#file.findLoss(usedBefore);
    if (loss !== undefined) throw new DataDirectoryError('damaged', loss);
    this.#reserve = openReserve(path);
    const { database, log } = openWithReserve(path, migrations, this.#reserve);
    this.#database = database;
    this.#log = log;
    this.#file.markInUse();
    this.#reserve.refill();
    this.#writes = new GroupCommit({
      database,
      log,
      reserve: this.#reserve,
      unavailable: (message, options) => new StoreError('unavailable', message, options),
    });
  }

  /** Prepares a statement; called once for each, when the store that uses it is opened. */
  query<Row = never>(sql: string): PreparedQuery<Row> {
    return this.#database.prepare(sql) as unknown as PreparedQuery<Row>;
  }

  /**
   * Runs `work` in a transaction and resolves when it is on the disk. If `work` throws, only its own changes are rolled back.
   * It may run twice, so it must do nothing but read and write the database. `committed` runs after a success, before the
   * promise resolves and before the next transaction.
   */
  write<T>(work: () => T, committed?: (result: T) => void): Promise<T> {
    return this.#add(work, committed, false);
  }

  /**
   * The same on a full disk too, with the space of the reserve: for deletes, and for what must be recorded about work that
   * was accepted before. New work uses `write`.
   */
  writeReserved<T>(work: () => T, committed?: (result: T) => void): Promise<T> {
    return this.#add(work, committed, true);
  }

  #add<T>(work: () => T, committed: ((result: T) => void) | undefined, frees: boolean): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreError('unavailable', 'the manager is stopping'));
    return this.#writes.add(work, committed, { frees });
  }

  /** Why nothing can be written any more until a restart. */
  get problem(): string | undefined {
    return this.#writes.problem;
  }

  /** Completes the queued writes, and closes the file. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#writes.finish();
    this.#file.markClosed();
    this.#database.close();
    this.#log.close();
    this.#reserve.close();
  }
}

function openReserve(path: string): DiskReserve {
  try {
    return new DiskReserve(`${path}-reserve`, SMALL_LOG);
  } catch (error) {
    throw toUnusableError(path, error);
  }
}

/** SQLite needs a little space to open a database. On a full disk the reserve provides it. */
function openWithReserve(path: string, migrations: readonly string[], reserve: DiskReserve) {
  for (;;) {
    try {
      return openDatabase(path, migrations);
    } catch (error) {
      if (isLackOfSpace(error) && reserve.release()) continue;
      reserve.close();
      throw error;
    }
  }
}

/** SQLite's code if its files cannot be extended or mapped, among other reasons. */
const SQLITE_IOERR = 10;

function isLackOfSpace(error: unknown): boolean {
  const cause = error instanceof DataDirectoryError ? error.cause : error;
  return isDiskFull(cause) || (cause instanceof Error && 'errcode' in cause && cause.errcode === SQLITE_IOERR);
}

function openDatabase(path: string, migrations: readonly string[]): { database: DatabaseSync; log: LogFile } {
  const database = open(path);
  try {
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;');
    const damage = new DatabaseFile(path).findDamage(database);
    if (damage !== undefined) throw new DataDirectoryError('damaged', damage);
    migrate(database, path, migrations);
    const log = new LogFile(path);
    syncDirectory(dirname(path));
    return { database, log };
  } catch (error) {
    database.close();
    throw error instanceof DataDirectoryError ? error : toUnusableError(path, error);
  }
}

function open(path: string): DatabaseSync {
  try {
    // Created here because SQLite would make it readable for everyone; its journal files get the mode of this one.
    closeSync(openSync(path, 'a', 0o600));
    return new DatabaseSync(path, { timeout: LOCK_TIMEOUT, enableForeignKeyConstraints: true, defensive: true });
  } catch (error) {
    throw toUnusableError(path, error);
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

function toUnusableError(path: string, cause: unknown): DataDirectoryError {
  const damage = new DatabaseFile(path).explain(cause);
  if (damage !== undefined) return new DataDirectoryError('damaged', damage, { cause });
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new DataDirectoryError('unusable', `the database ${path} cannot be opened: ${reason}`, { cause });
}

/**
 * The schema as migrations: the n-th leads from version n-1 to version n. A released migration is never edited. A change of `indexTermsFor` in `ports/service-store.ts` needs a migration that updates `service_terms`.
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
  `
  -- For lists over all services: one for each state, all of them or those of one user.
  CREATE INDEX jobs_of_state ON jobs (state, accepted_at, seq) WHERE standing <> 'hidden';
  CREATE INDEX jobs_of_invoker ON jobs (invoker, state, accepted_at, seq) WHERE standing <> 'hidden';
  CREATE INDEX jobs_of_principal ON jobs (principal, state, accepted_at, seq) WHERE standing <> 'hidden';
  `,
  `
  -- The id of the cluster whose data this is.
  CREATE TABLE cluster (
    row        INTEGER PRIMARY KEY CHECK (row = 1),
    cluster_id TEXT NOT NULL
  ) STRICT;
  `,
];

const BYTES = 12;

/** Random bytes are read in batches, because a system call takes ten times as long as the rest of a new version. */
const pool = Buffer.alloc(BYTES * 256);
let used = pool.length;

/** Random and not counted, so that no version repeats when a name is used again or a backup is restored. */
export function newVersion(): Version {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  return pool.toString('base64url', used, (used += BYTES)) as Version;
}
