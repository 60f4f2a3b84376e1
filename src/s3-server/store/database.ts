import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { DiskReserve, isDiskFull } from '../../lib/disk-reserve.ts';
import { GroupCommit } from '../../lib/group-commit.ts';
import { LogFile } from '../../lib/log-file.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import { syncDirectory } from '../../lib/sync-directory.ts';
import { S3Error } from '../lib/errors.ts';

/** Why the store could not be opened: another process has it, a later version wrote it, or the disk refuses. */
class ObjectStoreError extends OscarError<'in-use' | 'newer' | 'unusable'> {}

/** SQLite's code for "someone else has the lock". */
const SQLITE_BUSY = 5;

/** A prepared statement whose rows have a type. */
export interface StoreStatement<Row> {
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
  iterate(...values: SQLInputValue[]): Iterable<Row>;
  run(...values: SQLInputValue[]): { changes: number | bigint; lastInsertRowid: number | bigint };
}

/**
 * The database of the store. It belongs to one process: the lock is held until it is closed or the process ends.
 *
 * A read may see what is not yet on the disk: then a client gets an object a few milliseconds before whoever puts it
 * knows that it is kept. Events are another matter, since jobs are begun because of them: the outbox gives out none
 * before its write has resolved.
 */
export class StoreDatabase {
  readonly #database: DatabaseSync;
  readonly #log: LogFile;
  readonly #reserve: DiskReserve;
  readonly #writes: GroupCommit;
  #closed = false;

  constructor(path: string) {
    // Made here because SQLite would let everybody read it; the files beside it get the mode of this one.
    closeSync(openSync(path, 'a', 0o600));
    this.#database = new DatabaseSync(path, { timeout: 0, defensive: true });
    try {
      // 4000 pages are 16 MiB: fewer means moving pages more often, more a longer pause when they are moved.
      this.#database.exec(`
        PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
        PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -32768; PRAGMA temp_store = MEMORY;`);
      migrate(this.#database, path);
      this.#log = new LogFile(path);
      syncDirectory(dirname(path));
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
          : new S3Error('ServiceUnavailable', `We could not write: ${message}.`, options),
    });
  }

  query<Row = never>(sql: string): StoreStatement<Row> {
    return this.#database.prepare(sql) as unknown as StoreStatement<Row>;
  }

  /**
   * Runs `work` in a transaction and resolves when it is on the disk. Work that throws is undone alone. It may be run
   * several times, so it does nothing but read and write the database; `committed` follows before the next transaction.
   */
  write<T>(work: () => T, committed?: (result: T) => void): Promise<T> {
    if (this.#closed) return Promise.reject(new S3Error('ServiceUnavailable'));
    return this.#writes.add(work, committed);
  }

  /** The same for work that removes something: a full disk does not refuse it. */
  remove<T>(work: () => T, committed?: (result: T) => void): Promise<T> {
    if (this.#closed) return Promise.reject(new S3Error('ServiceUnavailable'));
    return this.#writes.add(work, committed, { frees: true });
  }

  /** Calls the listener when something was undone: whatever was remembered since may be wrong. */
  onRollback(listener: () => void): void {
    this.#writes.onRollback = listener;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#writes.finish();
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
      `the object store ${path} has schema ${from}, and this program knows up to ${STORE_MIGRATIONS.length}: ` +
        'a later version has used it, start that one',
    );
  }
  for (const [index, step] of STORE_MIGRATIONS.entries()) {
    if (index >= from) database.exec(`BEGIN IMMEDIATE; ${step}; PRAGMA user_version = ${index + 1}; COMMIT;`);
  }
  // Takes the lock also when there was nothing to do, and makes the log. It writes nothing: a full disk must not stop it.
  database.exec('BEGIN IMMEDIATE; COMMIT;');
}

function toStoreError(path: string, error: unknown): ObjectStoreError {
  if (error instanceof ObjectStoreError) return error;
  if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) {
    const message = `the object store ${path} is in use by another process: stop that one, or choose another directory`;
    return new ObjectStoreError('in-use', message, { cause: error });
  }
  const reason = error instanceof Error ? error.message : String(error);
  return new ObjectStoreError('unusable', `the object store ${path} cannot be opened: ${reason}`, { cause: error });
}

/**
 * One step per version of the schema; a step that was released is never changed.
 *
 * Content stands apart from objects: copies share it, and lists of objects stay dense. `segment` says which files make
 * up a content that is not inline. A bucket whose removal was decided has a name no request can have (`!<id>`) until
 * its content is gone.
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
  // Who a restricted bucket is shared with, as rows: whoever asks for the buckets of somebody finds them by an index.
  `CREATE TABLE share (user TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (user, name)) STRICT, WITHOUT ROWID;
   CREATE INDEX share_by_name ON share (name);
   INSERT INTO share (user, name)
     SELECT DISTINCT each.value, bucket.name FROM bucket, json_each(bucket.allowed_users) AS each
     WHERE bucket.visibility = 'restricted' AND bucket.name > '!~';
   CREATE INDEX bucket_public ON bucket (name) WHERE visibility = 'public';
   CREATE INDEX bucket_by_maker ON bucket (made_by, name) WHERE made_by IS NOT NULL`,
  // What keys were given for: whoever ends it ends them, also after a restart.
  `ALTER TABLE session ADD COLUMN purpose TEXT;
   CREATE INDEX session_by_purpose ON session (purpose) WHERE purpose IS NOT NULL`,
];
