import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { GroupCommit } from '../../base/group-commit.ts';
import { LogFile } from '../../base/log-file.ts';
import { syncDirectory } from '../../base/sync-directory.ts';
import { StoreError } from '../errors.ts';
import { DataDirectoryError } from './errors.ts';
import { MIGRATIONS } from './migrations.ts';

/**
 * How long to wait for someone else's lock. Nobody else should write here, but an operator may have the file open in a
 * shell. Shorter: a write fails although it need not. Longer: the whole manager stands still meanwhile.
 */
const LOCK_TIMEOUT = 1_000;

/** A prepared statement whose rows have a type. */
export interface Query<Row> {
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
  query<Row = never>(sql: string): Query<Row> {
    return this.#database.prepare(sql) as unknown as Query<Row>;
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
