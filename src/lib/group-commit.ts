import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { DiskFullError, type DiskReserve, isDiskFull } from './disk-space.ts';

interface Write {
  /** Does the work. Returns a function that resolves its promise, to be called once the work is on the disk. */
  run(): () => void;
  readonly fail: (error: unknown) => void;
  readonly frees: boolean;
}

/** A write that was tried, and whose promise is not settled yet. */
interface Outcome {
  readonly settle: () => void;
  readonly fail: (error: unknown) => void;
}

interface Failure {
  readonly cause: unknown;
  /** Whether the transaction had begun. */
  readonly begun: boolean;
}

export interface GroupCommitOptions {
  /** Must be in the modes `WAL` and `synchronous=NORMAL`. */
  readonly database: DatabaseSync;
  readonly log: Log;
  /** Disk space for writes that free space when the disk is full. Without it a full disk rejects these writes too. */
  readonly reserve?: DiskReserve;
  /** Creates an error of the caller's own type from a message. */
  readonly unavailable: (message: string, options: ErrorOptions) => Error;
}

/**
 * The only writer of a database. All waiting writes become one transaction, because the sync of the disk is what a write
 * costs. Each write has a savepoint, so that a write that throws undoes only itself. The pages go to the write-ahead log at
 * once, and the log is synced outside the event loop: `synchronous=FULL` would block the whole process, for 4 ms each time
 * on an ordinary disk. In the mode `NORMAL` SQLite itself syncs the log before it moves pages to the database, and the
 * database before it starts the log again.
 *
 * The promise of a write is settled only after the sync, even if the write was rejected: the reason may be another write of
 * the same transaction, which is not durable yet. The next transaction begins after all promises are settled. So the state
 * that callers keep in memory through `committed` matches what a transaction reads, and a write can rely on every write
 * before it.
 *
 * A full disk rejects writes. With a reserve it rejects only writes that need more space than the database has free pages:
 * deleted rows leave free pages, although the file does not shrink.
 *
 * A read between the commit and the end of the sync sees data that a power failure can still undo. Code that passes such
 * data to others who act on it without writing here first, as with events, must wait for the promise of the write.
 */
export class GroupCommit {
  readonly #options: GroupCommitOptions;
  readonly #begin: StatementSync;
  readonly #commit: StatementSync;
  readonly #save: StatementSync;
  readonly #keep: StatementSync;
  readonly #undo: StatementSync;
  readonly #pages: StatementSync;
  readonly #emptyLog: StatementSync;
  #waiting: Write[] = [];
  #unsettled: Outcome[] = [];
  /** A transaction is scheduled, or its sync is in progress. */
  #busy = false;
  #broken: Error | undefined;

  /** Called when a write was undone that other writes of its transaction may have read. */
  onRollback: () => void = () => undefined;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
    const { database } = options;
    this.#begin = database.prepare('BEGIN IMMEDIATE');
    this.#commit = database.prepare('COMMIT');
    this.#save = database.prepare('SAVEPOINT one');
    this.#keep = database.prepare('RELEASE one');
    this.#undo = database.prepare('ROLLBACK TO one');
    this.#pages = database.prepare('PRAGMA page_count');
    this.#emptyLog = database.prepare('PRAGMA wal_checkpoint(TRUNCATE)');
  }

  /**
   * Resolves when the work is on the disk. `work` may run several times, so it must only read and write the database.
   * `committed` is called before any promise of the same transaction resolves, and never for work that failed. Work that
   * `frees` space may use the reserve.
   */
  add<T>(work: () => T, committed?: (result: T) => void, { frees = false } = {}): Promise<T> {
    if (this.#broken) return Promise.reject(this.#stopped(this.#broken));
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const run = () => {
      const result = work();
      return () => {
        committed?.(result);
        resolve(result);
      };
    };
    this.#waiting.push({ run, fail: reject, frees });
    if (!this.#busy) this.#schedule();
    return promise;
  }

  /** Why nothing is written any more until a restart: the disk has failed. */
  get problem(): string | undefined {
    return this.#broken && this.#stopped(this.#broken).message;
  }

  /** Writes and syncs everything that was added, on this thread. `add` must not be called afterwards. */
  finish(): void {
    this.#syncNow();
    this.#write();
    this.#syncNow();
  }

  /** In a later turn of the event loop, so that callers whose promises were just settled can join the next transaction. */
  #schedule(): void {
    this.#busy = true;
    setImmediate(() => this.#next());
  }

  #next(): void {
    if (!this.#write()) {
      this.#settle();
      this.#busy = this.#waiting.length > 0;
      if (this.#busy) this.#schedule();
      return;
    }
    this.#options.log.sync((error) => {
      this.#settle(error);
      this.#schedule();
    });
  }

  #syncNow(): void {
    if (this.#unsettled.length === 0) return;
    try {
      this.#options.log.syncNow();
      this.#settle();
    } catch (error) {
      this.#settle(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #settle(error: Error | null = null): void {
    const outcomes = this.#unsettled;
    this.#unsettled = [];
    // After a failed sync the content of the disk is unknown, and a second sync may wrongly report success (fsync forgets
    // the failed pages): no more writes until a restart.
    if (error) this.#broken = error;
    for (const { settle, fail } of outcomes) {
      if (error) fail(this.#uncertain(error));
      else settle();
    }
  }

  /** Writes everything that waits. Returns false if nothing needs a sync. */
  #write(): boolean {
    const waiting = this.#waiting;
    this.#waiting = [];
    if (this.#broken) for (const { fail } of waiting) fail(this.#stopped(this.#broken));
    if (this.#broken || waiting.length === 0) return false;
    const batch = this.#admit(waiting);
    if (batch.length === 0) return false;
    const failure = this.#writeTogether(batch);
    if (!failure) return true;
    // A full disk undoes the whole transaction. The other writes may fit if each is tried alone.
    const divisible = failure.begun && batch.length > 1;
    const written = batch.map((write) => {
      const alone = divisible ? this.#writeTogether([write]) : failure;
      const final = alone && isDiskFull(alone.cause) ? this.#onFullDisk(write, alone) : alone;
      if (!final) return true;
      this.#reject(write, final.cause);
      return false;
    });
    return written.includes(true);
  }

  /** Rejects writes that need space while the reserve is used up: the reserve is refilled first. */
  #admit(writes: readonly Write[]): readonly Write[] {
    const { reserve } = this.#options;
    if (!reserve || reserve.isEnough || reserve.refill()) return writes;
    return writes.filter((write) => {
      if (!write.frees) this.#reject(write, new DiskFullError());
      return write.frees;
    });
  }

  /** Retries a write for which the disk had no space. Returns why it was not written, or undefined. */
  #onFullDisk(write: Write, first: Failure): Failure | undefined {
    const { reserve } = this.#options;
    if (!reserve) return first;
    // The log may occupy more space than the write needs.
    this.#truncateLog(reserve);
    reserve.refill();
    let failure = this.#writeTogether([write]);
    // A write that does not make the database larger can use the reserve: truncating the log returns all of it.
    const mostPages = write.frees ? Number.POSITIVE_INFINITY : this.#countPages();
    while (failure && isDiskFull(failure.cause) && !(failure.cause instanceof DiskFullError) && reserve.release()) {
      failure = this.#writeTogether([write], mostPages);
    }
    if (!failure) this.#truncateLog(reserve);
    reserve.refill();
    return failure;
  }

  /** Moves the log into the database and returns its space to the disk. */
  #truncateLog(reserve: DiskReserve): void {
    for (;;) {
      try {
        this.#emptyLog.get();
        return;
      } catch (error) {
        // Committed data stays in the log, and SQLite tries again later to move it.
        if (!isDiskFull(error) || !reserve.release()) return;
      }
    }
  }

  #countPages(): number {
    return Number(this.#pages.get()?.['page_count']);
  }

  #reject({ fail }: Write, cause: unknown): void {
    this.#unsettled.push({ settle: () => fail(this.#rejected(cause)), fail });
  }

  /** Writes the batch in one transaction. Returns why nothing of it was written, or undefined if all of it was. */
  #writeTogether(batch: readonly Write[], mostPages = Number.POSITIVE_INFINITY): Failure | undefined {
    const { database } = this.#options;
    let begun = false;
    const outcomes: Outcome[] = [];
    try {
      this.#begin.run();
      begun = true;
      for (const write of batch) outcomes.push({ settle: this.#writeOne(write), fail: write.fail });
      if (mostPages < Number.POSITIVE_INFINITY && this.#countPages() > mostPages) throw new DiskFullError();
      this.#commit.run();
    } catch (cause) {
      if (database.isTransaction) database.exec('ROLLBACK');
      this.onRollback();
      return { cause, begun };
    }
    this.#unsettled = [...this.#unsettled, ...outcomes];
    return undefined;
  }

  #writeOne(write: Write): () => void {
    this.#save.run();
    try {
      const settle = write.run();
      this.#keep.run();
      return settle;
    } catch (error) {
      // If SQLite has rolled back the whole transaction, there is no savepoint to return to. On a full disk it may do so or
      // not; in both cases the caller tries the other writes without this one.
      if (!this.#options.database.isTransaction || isDiskFull(error)) throw error;
      this.#undo.run();
      this.#keep.run();
      this.onRollback();
      return () => write.fail(error);
    }
  }

  #rejected(cause: unknown): Error {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `the database rejected the change, and nothing was changed: ${reason}`;
    return this.#options.unavailable(message, { cause });
  }

  #uncertain(cause: Error): Error {
    const message = `the disk failed during the write, and the change may or may not be stored: ${ADVICE}: ${cause.message}`;
    return this.#options.unavailable(message, { cause });
  }

  #stopped(cause: Error): Error {
    const message = `the manager writes no changes since the disk failed: ${ADVICE}: ${cause.message}`;
    return this.#options.unavailable(message, { cause });
  }
}

const ADVICE = 'check the disk, then restart the manager';

/** The log of a database, which must be synced to the disk. */
export interface Log {
  /** Outside the event loop. One call at a time. */
  sync(done: (error: Error | null) => void): void;
  /** On this thread. */
  syncNow(): void;
}

/** The write-ahead log of an open SQLite database. SQLite uses the same file as long as the database is open. */
export class LogFile implements Log {
  readonly #file: number;
  #syncing = false;
  #closed = false;

  constructor(database: string) {
    this.#file = openSync(`${database}-wal`, 'r');
  }

  sync(done: (error: Error | null) => void): void {
    this.#syncing = true;
    fdatasync(this.#file, (error) => {
      this.#syncing = false;
      if (this.#closed) closeSync(this.#file);
      done(error);
    });
  }

  syncNow(): void {
    fdatasyncSync(this.#file);
  }

  /** If a sync is in progress, the file is closed after it: its descriptor must not be reused for another file meanwhile. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (!this.#syncing) closeSync(this.#file);
  }
}
