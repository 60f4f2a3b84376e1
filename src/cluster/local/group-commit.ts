import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { StoreError } from '../errors.ts';

interface Write {
  /** Does the work; what it returns is called once that is on the disk. */
  run(): () => void;
  fail(error: unknown): void;
}

/**
 * The one writer of a database. Writes queue up; all that are there at the end of a turn of the event loop become one
 * transaction, since the trip to the disk is what a write costs. Each has a savepoint, so that one which throws undoes
 * only itself.
 */
export class GroupCommit {
  readonly #database: DatabaseSync;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  readonly #save: StatementSync;
  readonly #keep: StatementSync;
  readonly #undo: StatementSync;
  #waiting: Write[] = [];

  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#begin = database.prepare('BEGIN IMMEDIATE');
    this.#commit = database.prepare('COMMIT');
    this.#save = database.prepare('SAVEPOINT one');
    this.#keep = database.prepare('RELEASE one');
    this.#undo = database.prepare('ROLLBACK TO one');
  }

  add<T>(work: () => T, committed?: (result: T) => void): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const run = () => {
      const result = work();
      return () => {
        committed?.(result);
        resolve(result);
      };
    };
    if (this.#waiting.push({ run, fail: reject }) === 1) setImmediate(() => this.drain());
    return promise;
  }

  /** Writes everything that waits, now. */
  drain(): void {
    const batch = this.#waiting;
    this.#waiting = [];
    if (batch.length === 0) return;
    const failure = this.#together(batch);
    if (!failure) return;
    // A full disk undoes the whole transaction, whoever filled it. Alone, the others may still fit.
    if (failure.begun && batch.length > 1) for (const write of batch) this.#alone(write);
    else for (const write of batch) write.fail(unavailable(failure.cause));
  }

  #alone(write: Write): void {
    const failure = this.#together([write]);
    if (failure) write.fail(unavailable(failure.cause));
  }

  /** Returns why nothing of the batch was written, or undefined when every write has been settled. */
  #together(batch: readonly Write[]): { cause: unknown; begun: boolean } | undefined {
    let begun = false;
    const settled: (() => void)[] = [];
    try {
      this.#begin.run();
      begun = true;
      for (const write of batch) settled.push(this.#step(write));
      this.#commit.run();
    } catch (cause) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      return { cause, begun };
    }
    for (const settle of settled) settle();
    return undefined;
  }

  #step(write: Write): () => void {
    this.#save.run();
    try {
      const settle = write.run();
      this.#keep.run();
      return settle;
    } catch (error) {
      // SQLite has given up the whole transaction, so there is no savepoint to return to.
      if (!this.#database.isTransaction) throw error;
      this.#undo.run();
      this.#keep.run();
      return () => write.fail(error);
    }
  }
}

function unavailable(cause: unknown): StoreError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new StoreError('unavailable', `the database did not take the change, and nothing was changed: ${reason}`, {
    cause,
  });
}
