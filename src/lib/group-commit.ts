import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { DiskFullError, type DiskReserve, isDiskFull } from './disk-reserve.ts';
import type { Log } from './log-file.ts';

interface Write {
  /** Does the work; what it returns tells of it, once it is on the disk. */
  run(): () => void;
  readonly fail: (error: unknown) => void;
  readonly frees: boolean;
}

/** A write that was tried and that nobody has been told of. */
interface Outcome {
  readonly tell: () => void;
  readonly fail: (error: unknown) => void;
}

interface Failure {
  readonly cause: unknown;
  /** The transaction had begun. */
  readonly begun: boolean;
}

export interface GroupCommitOptions {
  /** In the modes `WAL` and `synchronous=NORMAL`. */
  readonly database: DatabaseSync;
  readonly log: Log;
  /** Room for writes that free some, when the disk has none. Without it a full disk refuses them as well. */
  readonly reserve?: DiskReserve;
  /** An error of the caller's own, out of a sentence. */
  readonly unavailable: (message: string, options: ErrorOptions) => Error;
}

/**
 * The one writer of a database. All writes that wait become one transaction, since the trip to the disk is what a write
 * costs; each has a savepoint, so that one which throws undoes only itself. The pages go to the write-ahead log at
 * once, and the log to the disk beside the event loop. `synchronous=FULL` would keep the whole process waiting, 4 ms a
 * time on an ordinary disk. In the mode `NORMAL` SQLite itself syncs the log before it moves pages to the database, and
 * the database before it begins the log again.
 *
 * Nobody is told how a write has ended before the trip has, not even that it was refused: what it was refused for
 * may have been written by its neighbour. The next transaction begins after they were told. So whatever is kept in
 * memory by `committed` fits what a transaction reads, and a write can rest on everything before it.
 *
 * A full disk refuses writes. With a reserve it refuses only those that need more room than there is in the database:
 * what was deleted there makes room for others, although the file does not shrink.
 *
 * A read between the commit and the end of the trip sees what a power cut can still take away. Whoever hands something
 * out that others act upon without writing here first, as events are, waits for the promise of the write.
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
  #untold: Outcome[] = [];
  /** A transaction is about to begin, or on its way to the disk. */
  #busy = false;
  #broken: Error | undefined;

  /** Called when something was undone that others in its transaction may have read. */
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
   * Resolves when the work is on the disk. It may be run several times, so it does nothing but read and write the
   * database. `committed` is called before any promise of the same trip resolves, and never for a work that failed.
   * Work that `frees` room may use the reserve.
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

  /** Brings everything that was added to the disk, now. Nothing is added afterwards. */
  finish(): void {
    this.#syncNow();
    this.#write();
    this.#syncNow();
  }

  /** In another turn, so that whoever was just told can write in the same transaction. */
  #schedule(): void {
    this.#busy = true;
    setImmediate(() => this.#next());
  }

  #next(): void {
    if (!this.#write()) {
      this.#tell();
      this.#busy = this.#waiting.length > 0;
      if (this.#busy) this.#schedule();
      return;
    }
    this.#options.log.sync((error) => {
      this.#tell(error);
      this.#schedule();
    });
  }

  #syncNow(): void {
    if (this.#untold.length === 0) return;
    try {
      this.#options.log.syncNow();
      this.#tell();
    } catch (error) {
      this.#tell(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #tell(error: Error | null = null): void {
    const outcomes = this.#untold;
    this.#untold = [];
    // What a failed sync has left on the disk is unknown, and a second one may lie: no more writes until a restart.
    if (error) this.#broken = error;
    for (const { tell, fail } of outcomes) {
      if (error) fail(this.#unsure(error));
      else tell();
    }
  }

  /** Writes all that wait. False when there is nothing to bring to the disk. */
  #write(): boolean {
    const waiting = this.#waiting;
    this.#waiting = [];
    if (this.#broken) for (const { fail } of waiting) fail(this.#stopped(this.#broken));
    if (this.#broken || waiting.length === 0) return false;
    const batch = this.#admitted(waiting);
    if (batch.length === 0) return false;
    const failure = this.#together(batch);
    if (!failure) return true;
    // A full disk undoes the whole transaction, whoever filled it. Alone, the others may still fit.
    const divisible = failure.begun && batch.length > 1;
    const written = batch.map((write) => {
      const alone = divisible ? this.#together([write]) : failure;
      const final = alone && isDiskFull(alone.cause) ? this.#onFullDisk(write, alone) : alone;
      if (!final) return true;
      this.#refuse(write, final.cause);
      return false;
    });
    return written.includes(true);
  }

  /** Refuses what needs room while the reserve is used up: it must be whole again before anything else is. */
  #admitted(writes: readonly Write[]): readonly Write[] {
    const { reserve } = this.#options;
    if (!reserve || reserve.isEnough || reserve.refill()) return writes;
    return writes.filter((write) => {
      if (!write.frees) this.#refuse(write, new DiskFullError());
      return write.frees;
    });
  }

  /** Tries a write again that had no room. Returns why it was not written, or undefined. */
  #onFullDisk(write: Write, first: Failure): Failure | undefined {
    const { reserve } = this.#options;
    if (!reserve) return first;
    // The log may have more room in it than the write needs.
    this.#giveLogBack(reserve);
    reserve.refill();
    let failure = this.#together([write]);
    // What does not make the database larger can use the reserve, because all of it comes back with the log.
    const most = write.frees ? Number.POSITIVE_INFINITY : this.#countPages();
    while (failure && isDiskFull(failure.cause) && !(failure.cause instanceof DiskFullError) && reserve.release()) {
      failure = this.#together([write], most);
    }
    if (!failure) this.#giveLogBack(reserve);
    reserve.refill();
    return failure;
  }

  /** Moves the log into the database and returns its room to the disk. */
  #giveLogBack(reserve: DiskReserve): void {
    for (;;) {
      try {
        this.#emptyLog.get();
        return;
      } catch (error) {
        // Everything that was committed is in the log, from where SQLite goes on trying to move it.
        if (!isDiskFull(error) || !reserve.release()) return;
      }
    }
  }

  #countPages(): number {
    return Number(this.#pages.get()?.['page_count']);
  }

  #refuse({ fail }: Write, cause: unknown): void {
    this.#untold.push({ tell: () => fail(this.#refused(cause)), fail });
  }

  /** Returns why nothing of the batch was written, or undefined when all of it was. */
  #together(batch: readonly Write[], mostPages = Number.POSITIVE_INFINITY): Failure | undefined {
    const { database } = this.#options;
    let begun = false;
    const outcomes: Outcome[] = [];
    try {
      this.#begin.run();
      begun = true;
      for (const write of batch) outcomes.push({ tell: this.#step(write), fail: write.fail });
      if (mostPages < Number.POSITIVE_INFINITY && this.#countPages() > mostPages) throw new DiskFullError();
      this.#commit.run();
    } catch (cause) {
      if (database.isTransaction) database.exec('ROLLBACK');
      this.onRollback();
      return { cause, begun };
    }
    this.#untold = [...this.#untold, ...outcomes];
    return undefined;
  }

  #step(write: Write): () => void {
    this.#save.run();
    try {
      const tell = write.run();
      this.#keep.run();
      return tell;
    } catch (error) {
      // SQLite has given up the whole transaction, so there is no savepoint to return to. For want of room it may do so
      // or not; either way the others of the batch are tried without this one.
      if (!this.#options.database.isTransaction || isDiskFull(error)) throw error;
      this.#undo.run();
      this.#keep.run();
      this.onRollback();
      return () => write.fail(error);
    }
  }

  #refused(cause: unknown): Error {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `the database did not take the change, and nothing was changed: ${reason}`;
    return this.#options.unavailable(message, { cause });
  }

  #unsure(cause: Error): Error {
    const message = `the disk failed while it took the change, which may be there or not: ${LOOK}: ${cause.message}`;
    return this.#options.unavailable(message, { cause });
  }

  #stopped(cause: Error): Error {
    const message = `nothing is written since the disk failed to take a change: ${LOOK}: ${cause.message}`;
    return this.#options.unavailable(message, { cause });
  }
}

const LOOK = 'look after the disk, then start the manager again';
