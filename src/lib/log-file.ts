import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs';

/** What a database has written and must be brought to the disk. */
export interface Log {
  /** Beside the event loop; one at a time. */
  sync(done: (error: Error | null) => void): void;
  /** On this thread. */
  syncNow(): void;
}

/** The write-ahead log of an open SQLite database. SQLite keeps to this one file for as long as the database is open. */
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

  /** A sync that is under way keeps the file until it ends: its number must not become that of another file. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (!this.#syncing) closeSync(this.#file);
  }
}
