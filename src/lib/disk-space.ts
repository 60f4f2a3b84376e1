import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { size } from './amounts.ts';
import { OscarError } from './oscar-error.ts';

const MIB = 1024 * 1024;

/**
 * How often the free space is read. More often costs a system call each time. Less often, more is accepted after the
 * space has run low, and work waits longer after some was freed.
 */
const CHECK_EVERY_MS = 1_000;

/** Without this margin, work would start and stop all the time while the free space is near the floor. */
const MARGIN = 1.1;

/**
 * The free space that is kept on a file system of this size: 1 % of it, between 256 MiB and 4 GiB, but never more than a
 * tenth. With more, space is unused; with less, what runs already may not have enough to finish.
 */
export function defaultDiskFloor(total: number): number {
  return Math.min(Math.max(total / 100, 256 * MIB), 4096 * MIB, total / 10);
}

export interface DiskSpaceOptions {
  /** Bytes; 0 turns it off. By default {@link defaultDiskFloor} of each file system. */
  readonly floor?: number | undefined;
  /** Called when the space has run low, and when there is enough again. */
  readonly report?: (low: LowSpace | undefined) => void;
  readonly checkEvery?: number;
}

/** A file system with less free space than its floor. In bytes. */
export interface LowSpace {
  readonly directory: string;
  readonly free: number;
  readonly floor: number;
}

/**
 * Watches the free space of the directories that this process writes to. While one is below its floor, new work is not
 * accepted, so that running work can finish and everything can be deleted.
 */
export class DiskSpace {
  readonly #options: DiskSpaceOptions;
  readonly #directories = new Set<string>();
  readonly #listeners = new Set<() => void>();
  readonly #timer: NodeJS.Timeout | undefined;
  #low: LowSpace | undefined;
  #checking: Promise<void> | undefined;

  constructor(options: DiskSpaceOptions = {}) {
    this.#options = options;
    if (options.floor === 0) return;
    this.#timer = setInterval(() => void this.check(), options.checkEvery ?? CHECK_EVERY_MS).unref();
  }

  /** Watches this directory too. Resolves when its space is known. */
  async watch(directory: string): Promise<void> {
    this.#directories.add(directory);
    // A check that is running may have passed over it.
    await this.#checking;
    await this.check();
  }

  /** The file system with too little space; undefined while there is enough. */
  get low(): LowSpace | undefined {
    return this.#low;
  }

  /** Why no new work is accepted, as a sentence for users; undefined while there is enough space. */
  get shortage(): string | undefined {
    if (!this.#low) return undefined;
    return `the disk of this cluster is almost full (${size(this.#low.free, Math.floor)} left): delete what is not needed, or try again later`;
  }

  /** Calls the listener when the space has run low, and when there is enough again. Returns a function that unsubscribes. */
  onChange(listener: () => void): () => void {
    const wrapped = () => listener();
    this.#listeners.add(wrapped);
    return () => this.#listeners.delete(wrapped);
  }

  /** Reads the free space now. Never rejects. */
  check(): Promise<void> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
    });
    return this.#checking;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#listeners.clear();
  }

  async #check(): Promise<void> {
    if (this.#options.floor === 0) return;
    const found = await Promise.all([...this.#directories].map((directory) => this.#measure(directory)));
    const low = found.find((each) => each !== undefined);
    const changed = (low === undefined) !== (this.#low === undefined);
    this.#low = low;
    if (!changed) return;
    this.#options.report?.(low);
    for (const listener of this.#listeners) listener();
  }

  async #measure(directory: string): Promise<LowSpace | undefined> {
    try {
      const { bavail, blocks, bsize } = await statfs(directory);
      const [free, total] = [bavail * bsize, blocks * bsize];
      const floor = this.#options.floor ?? defaultDiskFloor(total);
      // Some file systems report no size.
      return total > 0 && free < floor * (this.#low ? MARGIN : 1) ? { directory, free, floor } : undefined;
    } catch {
      // A directory that cannot be read is reported by the operations that need it.
      return undefined;
    }
  }
}

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

  constructor(path: string, wanted = LARGE_LOG) {
    this.#path = path;
    this.#wanted = wanted;
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
    const { size: found } = fstatSync(file);
    this.#size = Math.min(this.#wanted.whole, found - (found % PIECE));
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
