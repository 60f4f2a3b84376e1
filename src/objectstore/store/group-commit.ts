import { fdatasync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { S3Error } from '../errors.ts';

interface Write {
  /** Does the work; what it returns is called once that is committed, and what that returns once it is on the disk. */
  run(): () => () => void;
  readonly fail: (error: unknown) => void;
}

/**
 * The one writer of the database. All writes of one turn of the event loop become one transaction. Its pages go to the
 * write-ahead log at once, and the log to the disk beside the event loop: meanwhile requests are read, and what they
 * write shares the next trip. Nobody is told of a write before its trip has ended, which is what `synchronous=FULL`
 * promises; it would keep the whole process waiting, 4 ms a time on an ordinary disk. In the mode `NORMAL` SQLite
 * itself syncs the log before it moves pages to the database, and the database before it begins the log again.
 */
export class GroupCommit {
  readonly #database: DatabaseSync;
  readonly #log: number;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  readonly #save: StatementSync;
  readonly #keep: StatementSync;
  readonly #undo: StatementSync;
  #waiting: Write[] = [];
  /** Committed, and not yet on the disk. */
  #unsynced: { done: () => void; fail: (error: unknown) => void }[] = [];
  #syncing = false;
  #broken: Error | undefined;
  #idle: (() => void)[] = [];

  /** Called when a transaction was undone that others may have read from. */
  onRollback: () => void = () => undefined;

  constructor(database: DatabaseSync, log: number) {
    this.#database = database;
    this.#log = log;
    this.#begin = database.prepare('BEGIN IMMEDIATE');
    this.#commit = database.prepare('COMMIT');
    this.#save = database.prepare('SAVEPOINT one');
    this.#keep = database.prepare('RELEASE one');
    this.#undo = database.prepare('ROLLBACK TO one');
  }

  add<T>(work: () => T, committed?: (result: T) => void): Promise<T> {
    if (this.#broken) return Promise.reject(unavailable(this.#broken));
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const run = () => {
      const result = work();
      return () => {
        committed?.(result);
        return () => resolve(result);
      };
    };
    if (this.#waiting.push({ run, fail: reject }) === 1) setImmediate(() => this.#drain());
    return promise;
  }

  /** Resolves when everything that was added is on the disk. */
  async idle(): Promise<void> {
    this.#drain();
    if (!this.#syncing) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#idle.push(resolve);
    await promise;
  }

  #drain(): void {
    const batch = this.#waiting;
    this.#waiting = [];
    if (batch.length === 0) return;
    const failure = this.#together(batch);
    // A full disk undoes the whole transaction, whoever filled it. Alone, the others may still fit.
    if (failure?.begun && batch.length > 1) {
      for (const write of batch) {
        const alone = this.#together([write]);
        if (alone) write.fail(unavailable(alone.cause));
      }
    } else if (failure) for (const write of batch) write.fail(unavailable(failure.cause));
    this.#sync();
  }

  /** Returns why nothing of the batch was written, or undefined when all of it was. */
  #together(batch: readonly Write[]): { cause: unknown; begun: boolean } | undefined {
    let begun = false;
    const committed: { settle: () => () => void; fail: (error: unknown) => void }[] = [];
    try {
      this.#begin.run();
      begun = true;
      for (const write of batch) {
        const settle = this.#step(write);
        if (settle) committed.push({ settle, fail: write.fail });
      }
      this.#commit.run();
    } catch (cause) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      this.onRollback();
      return { cause, begun };
    }
    for (const { settle, fail } of committed) this.#unsynced.push({ done: settle(), fail });
    return undefined;
  }

  #step(write: Write): (() => () => void) | undefined {
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
      this.onRollback();
      write.fail(error);
      return undefined;
    }
  }

  #sync(): void {
    if (this.#syncing || this.#unsynced.length === 0) return;
    this.#syncing = true;
    const batch = this.#unsynced;
    this.#unsynced = [];
    fdatasync(this.#log, (error) => {
      this.#syncing = false;
      // What a failed sync has left on the disk is unknown, and a second one may lie: no more writes until a restart.
      if (error) this.#broken = error;
      for (const { done, fail } of batch) {
        if (error) fail(unavailable(error));
        else done();
      }
      this.#sync();
      if (this.#syncing) return;
      for (const resolve of this.#idle.splice(0)) resolve();
    });
  }
}

function unavailable(cause: unknown): S3Error {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new S3Error('ServiceUnavailable', `The store could not write, and nothing was changed: ${reason}.`, { cause });
}
