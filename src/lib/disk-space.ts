import { statfs } from 'node:fs/promises';
import { size } from './amounts.ts';

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
