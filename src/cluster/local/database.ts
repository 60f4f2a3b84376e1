import { closeSync, openSync } from 'node:fs';
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { StoreError } from '../errors.ts';
import { DataDirectoryError } from './errors.ts';
import { GroupCommit } from './group-commit.ts';
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
 * resolves (WAL with `synchronous=FULL`), and all writes of one turn of the event loop share that trip to the disk.
 */
export class Database {
  readonly #database: DatabaseSync;
  readonly #writes: GroupCommit;
  #closed = false;

  constructor(path: string, migrations: readonly string[] = MIGRATIONS) {
    this.#database = open(path);
    try {
      this.#database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;');
      migrate(this.#database, path, migrations);
    } catch (error) {
      this.#database.close();
      throw error instanceof DataDirectoryError ? error : unusable(path, error);
    }
    this.#writes = new GroupCommit(this.#database);
  }

  /** Prepares a statement: once, when the store that uses it is made. */
  query<Row = never>(sql: string): Query<Row> {
    return this.#database.prepare(sql) as unknown as Query<Row>;
  }

  /**
   * Runs `work` in a transaction and resolves when it is on the disk. Work that throws is undone alone. It may be run
   * twice, so it does nothing but read and write the database; what should follow a success, before anybody can read
   * again, is done in `committed`.
   */
  write<T>(work: () => T, committed?: (result: T) => void): Promise<T> {
    if (this.#closed) return Promise.reject(new StoreError('unavailable', 'the manager is stopping'));
    return this.#writes.add(work, committed);
  }

  /** Finishes the writes that wait, and closes the file. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#writes.drain();
    this.#database.close();
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
