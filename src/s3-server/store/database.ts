import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { DatabaseFile } from '../../lib/database-file.ts';
import { DiskReserve, isDiskFull } from '../../lib/disk-space.ts';
import { GroupCommit, LogFile } from '../../lib/group-commit.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import { syncDirectory } from '../../lib/sync-directory.ts';
import { S3Error } from '../lib/errors.ts';

/** Why the store could not be opened: another process uses it, a newer version wrote it, files are damaged, or the disk has an error. */
class ObjectStoreError extends OscarError<'in-use' | 'newer' | 'unusable' | 'damaged'> {}

/** SQLite's error code if another process has the lock. */
const SQLITE_BUSY = 5;

/** A prepared statement whose rows have a type. */
export interface StoreStatement<Row> {
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
  iterate(...values: SQLInputValue[]): Iterable<Row>;
  run(...values: SQLInputValue[]): { changes: number | bigint; lastInsertRowid: number | bigint };
}

/**
 * The database of the store. One process uses it: the lock is held until the database is closed or the process ends.
 *
 * A read may see data that is not yet on disk: a client may get an object a few milliseconds before the writer gets its
 * response. Events are stricter, because they start jobs: the outbox returns an event only after its write is on disk.
 */
export class StoreDatabase {
  readonly #database: DatabaseSync;
  readonly #log: LogFile;
  readonly #reserve: DiskReserve;
  readonly #writes: GroupCommit;
  #closed = false;

  readonly #file: DatabaseFile;

  /** `usedBefore` is a file that exists once the database has been used. */
  constructor(path: string, usedBefore = `${path}-in-use`) {
    this.#file = new DatabaseFile(path);
    const loss = this.#file.findLoss(usedBefore);
    if (loss !== undefined) throw new ObjectStoreError('damaged', loss);
    // Created here because SQLite would make it readable for everybody. SQLite's other files get the mode of this one.
    closeSync(openSync(path, 'a', 0o600));
    this.#database = new DatabaseSync(path, { timeout: 0, defensive: true });
    try {
      // 4000 pages are 16 MiB. With fewer pages checkpoints are more frequent; with more, each one takes longer.
      this.#database.exec(`
        PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
        PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -32768; PRAGMA temp_store = MEMORY;`);
      const damage = this.#file.findDamage(this.#database);
      if (damage !== undefined) throw new ObjectStoreError('damaged', damage);
      migrate(this.#database, path);
      this.#log = new LogFile(path);
      syncDirectory(dirname(path));
      this.#file.markInUse();
      this.#reserve = new DiskReserve(`${path}-reserve`);
      this.#reserve.refill();
    } catch (error) {
      this.#database.close();
      throw toStoreError(path, error);
    }
    this.#writes = new GroupCommit({
      database: this.#database,
      log: this.#log,
      reserve: this.#reserve,
      unavailable: (message, options) =>
        isDiskFull(options.cause)
          ? new S3Error('XMinioStorageFull', undefined, options)
          : new S3Error('ServiceUnavailable', `The store could not write: ${message}.`, options),
    });
  }

  query<Row = never>(sql: string): StoreStatement<Row> {
    return this.#database.prepare(sql) as unknown as StoreStatement<Row>;
  }

  /**
   * Runs `work` in a transaction and resolves when it is on disk. If `work` throws, only its own changes are rolled
   * back. It may run several times, so it must only read and write the database. `committed` runs before the next
   * transaction.
   */
  write<T>(work: () => T, committed?: (result: T) => void): Promise<T> {
    if (this.#closed) return Promise.reject(new S3Error('ServiceUnavailable'));
    return this.#writes.add(work, committed);
  }

  /** The same for work that removes something: it also succeeds on a full disk. */
  remove<T>(work: () => T, committed?: (result: T) => void): Promise<T> {
    if (this.#closed) return Promise.reject(new S3Error('ServiceUnavailable'));
    return this.#writes.add(work, committed, { frees: true });
  }

  /** Calls the listener after a rollback: cached values may be wrong. */
  onRollback(listener: () => void): void {
    this.#writes.onRollback = listener;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#writes.finish();
    this.#file.markClosed();
    this.#database.close();
    this.#log.close();
    this.#reserve.close();
  }
}

function migrate(database: DatabaseSync, path: string): void {
  const from = Number(database.prepare('PRAGMA user_version').get()?.['user_version']);
  if (from > STORE_MIGRATIONS.length) {
    throw new ObjectStoreError(
      'newer',
      `the object store ${path} has schema ${from}, but this program supports at most ${STORE_MIGRATIONS.length}: ` +
        'a newer version wrote it, start that version',
    );
  }
  for (const [index, step] of STORE_MIGRATIONS.entries()) {
    if (index >= from) database.exec(`BEGIN IMMEDIATE; ${step}; PRAGMA user_version = ${index + 1}; COMMIT;`);
  }
  // Takes the lock and creates the WAL even if no step was needed. It writes no data, so it also succeeds on a full
  // disk.
  database.exec('BEGIN IMMEDIATE; COMMIT;');
}

function toStoreError(path: string, error: unknown): ObjectStoreError {
  if (error instanceof ObjectStoreError) return error;
  if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) {
    const message = `the object store ${path} is in use by another process: stop that process, or choose another directory`;
    return new ObjectStoreError('in-use', message, { cause: error });
  }
  const damage = new DatabaseFile(path).explain(error);
  if (damage !== undefined) return new ObjectStoreError('damaged', damage, { cause: error });
  const reason = error instanceof Error ? error.message : String(error);
  return new ObjectStoreError('unusable', `the object store ${path} cannot be opened: ${reason}`, { cause: error });
}

/**
 * One step per version of the schema. Released steps never change.
 *
 * Content has its own table: copies share it, and listings of objects read fewer pages. `segment` lists the files of a
 * content that is not inline. A removed bucket has a name that no request can contain (`!<id>`) until its content is
 * removed.
 */
export const STORE_MIGRATIONS: readonly string[] = [
  `CREATE TABLE bucket (
     id INTEGER PRIMARY KEY,
     name TEXT NOT NULL UNIQUE,
     owner TEXT NOT NULL,
     visibility TEXT NOT NULL,
     allowed_users TEXT NOT NULL,
     tags TEXT NOT NULL,
     made_by TEXT,
     cors TEXT,
     quota INTEGER,
     created INTEGER NOT NULL,
     objects INTEGER NOT NULL DEFAULT 0,
     bytes INTEGER NOT NULL DEFAULT 0,
     pending INTEGER NOT NULL DEFAULT 0
   ) STRICT;
   CREATE INDEX bucket_by_owner ON bucket (owner, name);
   CREATE TABLE object (
     bucket INTEGER NOT NULL,
     key TEXT NOT NULL,
     size INTEGER NOT NULL,
     etag TEXT NOT NULL,
     modified INTEGER NOT NULL,
     sequencer TEXT NOT NULL,
     content INTEGER,
     content_type TEXT NOT NULL,
     headers TEXT,
     checksum TEXT,
     tags TEXT,
     parts INTEGER,
     PRIMARY KEY (bucket, key)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE content (id INTEGER PRIMARY KEY, refs INTEGER NOT NULL, data BLOB) STRICT;
   CREATE TABLE segment (
     content INTEGER NOT NULL, n INTEGER NOT NULL, file TEXT NOT NULL, size INTEGER NOT NULL,
     PRIMARY KEY (content, n)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX segment_by_file ON segment (file);
   CREATE TABLE upload (
     id TEXT PRIMARY KEY,
     bucket INTEGER NOT NULL,
     key TEXT NOT NULL,
     begun INTEGER NOT NULL,
     touched INTEGER NOT NULL,
     content_type TEXT NOT NULL,
     headers TEXT,
     tags TEXT,
     checksum_algorithm TEXT,
     checksum_type TEXT
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX upload_by_key ON upload (bucket, key, id);
   CREATE TABLE part (
     upload TEXT NOT NULL, number INTEGER NOT NULL, file TEXT, size INTEGER NOT NULL, etag TEXT NOT NULL,
     checksum TEXT, modified INTEGER NOT NULL,
     PRIMARY KEY (upload, number)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX part_by_file ON part (file);
   CREATE TABLE user (access_key TEXT PRIMARY KEY, secret BLOB NOT NULL) STRICT, WITHOUT ROWID;
   CREATE TABLE session (
     access_key TEXT PRIMARY KEY,
     kind TEXT NOT NULL,
     parent TEXT NOT NULL,
     secret BLOB NOT NULL,
     token_hash TEXT NOT NULL,
     policy TEXT,
     expires INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX session_by_parent ON session (parent);
   CREATE INDEX session_by_expiry ON session (expires);
   CREATE TABLE rule (
     bucket INTEGER NOT NULL, id TEXT NOT NULL, prefix TEXT NOT NULL, suffix TEXT NOT NULL,
     PRIMARY KEY (bucket, id)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE event (
     seq INTEGER PRIMARY KEY AUTOINCREMENT,
     bucket TEXT NOT NULL, key TEXT NOT NULL, etag TEXT NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,
     event TEXT NOT NULL
   ) STRICT`,
  // The users of restricted buckets, as rows with an index: finds the buckets that are shared with a user.
  `CREATE TABLE share (user TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (user, name)) STRICT, WITHOUT ROWID;
   CREATE INDEX share_by_name ON share (name);
   INSERT INTO share (user, name)
     SELECT DISTINCT each.value, bucket.name FROM bucket, json_each(bucket.allowed_users) AS each
     WHERE bucket.visibility = 'restricted' AND bucket.name > '!~';
   CREATE INDEX bucket_public ON bucket (name) WHERE visibility = 'public';
   CREATE INDEX bucket_by_maker ON bucket (made_by, name) WHERE made_by IS NOT NULL`,
  // The purpose of keys: all keys of a purpose are revoked together, also after a restart.
  `ALTER TABLE session ADD COLUMN purpose TEXT;
   CREATE INDEX session_by_purpose ON session (purpose) WHERE purpose IS NOT NULL`,
];
