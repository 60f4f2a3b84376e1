import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { GroupCommit } from '../../base/group-commit.ts';
import { LogFile } from '../../base/log-file.ts';
import { OscarError } from '../../base/oscar-error.ts';
import { syncDirectory } from '../../base/sync-directory.ts';
import { S3Error } from '../errors.ts';
import { MIGRATIONS } from './schema.ts';

/** Why the store could not be opened: another process has it, a later version wrote it, or the disk refuses. */
export class ObjectStoreError extends OscarError<'in-use' | 'newer' | 'unusable'> {}

/** SQLite's code for "someone else has the lock". */
const SQLITE_BUSY = 5;

/** A prepared statement whose rows have a type. */
export interface Query<Row> {
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
export class Database {
  readonly #database: DatabaseSync;
  readonly #log: LogFile;
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
    } catch (error) {
      this.#database.close();
      throw reasonFor(path, error);
    }
    this.#writes = new GroupCommit({
      database: this.#database,
      log: this.#log,
      unavailable: (message, options) => new S3Error('ServiceUnavailable', `We could not write: ${message}.`, options),
    });
  }

  query<Row = never>(sql: string): Query<Row> {
    return this.#database.prepare(sql) as unknown as Query<Row>;
  }

  /**
   * Runs `work` in a transaction and resolves when it is on the disk. Work that throws is undone alone. It may be run
   * twice, so it does nothing but read and write the database; `committed` follows before the next transaction.
   */
  write<T>(work: () => T, committed?: (result: T) => void): Promise<T> {
    if (this.#closed) return Promise.reject(new S3Error('ServiceUnavailable'));
    return this.#writes.add(work, committed);
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
  }
}

function migrate(database: DatabaseSync, path: string): void {
  const from = Number(database.prepare('PRAGMA user_version').get()?.['user_version']);
  if (from > MIGRATIONS.length) {
    throw new ObjectStoreError(
      'newer',
      `the object store ${path} has schema ${from}, and this program knows up to ${MIGRATIONS.length}: ` +
        'a later version has used it, start that one',
    );
  }
  for (const [index, step] of MIGRATIONS.entries()) {
    if (index >= from) database.exec(`BEGIN IMMEDIATE; ${step}; PRAGMA user_version = ${index + 1}; COMMIT;`);
  }
  // Takes the lock also when there was nothing to do, and makes the log.
  database.exec('BEGIN IMMEDIATE; PRAGMA user_version = ' + MIGRATIONS.length + '; COMMIT;');
}

function reasonFor(path: string, error: unknown): ObjectStoreError {
  if (error instanceof ObjectStoreError) return error;
  if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) {
    const message = `the object store ${path} is in use by another process: stop that one, or choose another directory`;
    return new ObjectStoreError('in-use', message, { cause: error });
  }
  const reason = error instanceof Error ? error.message : String(error);
  return new ObjectStoreError('unusable', `the object store ${path} cannot be opened: ${reason}`, { cause: error });
}
