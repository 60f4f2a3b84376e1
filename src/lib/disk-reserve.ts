import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { OscarError } from './oscar-error.ts';

/** The disk has no room for a change. */
export class DiskFullError extends OscarError<'disk-full'> {
  constructor() {
    super('disk-full', 'the disk is full');
  }
}

/** SQLite's code for a write that had no room on the disk. */
const SQLITE_FULL = 13;

export function isDiskFull(error: unknown): boolean {
  if (error instanceof DiskFullError) return true;
  if (!(error instanceof Error)) return false;
  const { code, errcode } = error as { readonly code?: unknown; readonly errcode?: unknown };
  return code === 'ENOSPC' || code === 'EDQUOT' || errcode === SQLITE_FULL;
}

const MIB = 1024 * 1024;

/** In bytes, multiples of 1 MiB. */
export interface ReserveSize {
  readonly whole: number;
  /** With less than this, nothing is added to the database. */
  readonly enough: number;
}

/**
 * The reserve of a database whose write-ahead log has 4000 pages of 4 KiB. When the disk is full the database must be
 * able to grow by all of them, 16 MiB, before the log can begin again, and the log takes a few MiB for one transaction
 * that deletes a thousand objects. Smaller: large deletions fail. Larger: space that is never used.
 */
const LARGE_LOG: ReserveSize = { whole: 32 * MIB, enough: 24 * MIB };

/** The same for SQLite's default, a log of 1000 pages: 4 MiB. */
export const SMALL_LOG: ReserveSize = { whole: 12 * MIB, enough: 8 * MIB };

/** Given back and taken in pieces, since most transactions need only one. */
const PIECE = MIB;

/**
 * Room on the disk that is kept for deleting: a full disk refuses deletions too, because SQLite writes down what is
 * deleted. It is a file that holds nothing. Its bytes are random, so that no file system stores fewer.
 */
export class DiskReserve {
  readonly #path: string;
  readonly #wanted: ReserveSize;
  readonly #piece = randomBytes(PIECE);
  #file: number | undefined;
  #size = 0;

  constructor(path: string, size = LARGE_LOG) {
    this.#path = path;
    this.#wanted = size;
    try {
      this.#open();
    } catch (error) {
      if (!isDiskFull(error)) throw error;
    }
  }

  get isEnough(): boolean {
    return this.#size >= this.#wanted.enough;
  }

  /** Takes as much room as there is, up to the whole reserve. Says whether it is enough. */
  refill(): boolean {
    try {
      const file = this.#open();
      while (this.#size < this.#wanted.whole) {
        for (let written = 0; written < PIECE; ) written += writeSync(file, this.#piece, written);
        this.#size += PIECE;
      }
    } catch {
      // Full, or failing: what is not there is not reserved. Part of a piece would only take the last bytes from others.
      this.#truncate();
    }
    return this.isEnough;
  }

  /** Gives room back, each time as much as all times before. False when nothing is left to give. */
  release(): boolean {
    if (this.#size === 0) return false;
    this.#size -= Math.min(this.#size, Math.max(PIECE, this.#wanted.whole - this.#size));
    this.#truncate();
    return true;
  }

  /** What is reserved stays reserved. */
  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }

  /** Opens the file again if there was no room for it before. */
  #open(): number {
    if (this.#file !== undefined) return this.#file;
    const file = openSync(this.#path, 'a', 0o600);
    this.#file = file;
    const { size } = fstatSync(file);
    this.#size = Math.min(this.#wanted.whole, size - (size % PIECE));
    this.#truncate();
    return file;
  }

  #truncate(): void {
    if (this.#file === undefined) return;
    try {
      ftruncateSync(this.#file, this.#size);
    } catch {
      // A disk that fails. Nothing counts as reserved until the file can be opened again.
      this.close();
      this.#size = 0;
    }
  }
}
