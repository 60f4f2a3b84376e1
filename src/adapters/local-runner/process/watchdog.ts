/** Kills scripts that exceed their memory or their disk, and measures what all scripts use. */
import { readdirSync, readlinkSync, statfsSync, statSync } from 'node:fs';
import { BLOCK_BYTES, measureDiskUse } from '../disk-use.ts';
import type { ProcessRun } from './process-run.ts';
import type { ProcessEntry, ProcessTable } from './process-table.ts';
import { homeIn, temporaryIn } from './wrapper.ts';

/** A shorter interval notices fast growing memory earlier; a longer one costs less. Checking 100 processes takes 2 ms. */
const INTERVAL_MS = 300;
/** The checks take at most this part of the time, however many processes there are. */
const MAX_SHARE = 1 / 20;
/** The disk is checked once in this many checks of the processes: it costs more, and a disk fills more slowly. */
const DISK_EVERY = 5;

/** Checks only while scripts run. */
export class Watchdog {
  readonly #table: ProcessTable;
  readonly #maxDisk: number;
  readonly #runs = new Set<ProcessRun>();
  readonly #cpuMs = new Map<number, number>();
  #usage = { cpu: 0, memory: 0 };
  #checks = 0;
  #checkedAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #checking = false;

  constructor(table: ProcessTable, maxDisk: number) {
    this.#table = table;
    this.#maxDisk = maxDisk;
  }

  add(run: ProcessRun): void {
    this.#runs.add(run);
    void run.ended.then(() => this.#runs.delete(run));
    this.#schedule(INTERVAL_MS);
  }

  usage(): { cpu: number; memory: number } {
    return this.#runs.size === 0 ? { cpu: 0, memory: 0 } : this.#usage;
  }

  close(): void {
    this.#runs.clear();
    clearTimeout(this.#timer);
  }

  #schedule(milliseconds: number): void {
    if (this.#timer || this.#checking) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#checkAndReschedule();
    }, milliseconds);
  }

  async #checkAndReschedule(): Promise<void> {
    this.#checking = true;
    const begun = performance.now();
    // A check can fail, for example without free file descriptors. The next one covers for it.
    await this.#check().catch(() => undefined);
    this.#checking = false;
    if (this.#runs.size > 0) this.#schedule(Math.max(INTERVAL_MS, (performance.now() - begun) / MAX_SHARE));
  }

  async #check(): Promise<void> {
    const entries = (await this.#table.read()).filter(({ zombie }) => !zombie);
    const used = { cpuMs: 0, memory: 0 };
    const seen = new Set<number>();
    for (const run of this.#runs) {
      const members = run.select(entries);
      run.update(entries);
      const shared = sharedMemoryBytes(run, members);
      const memory = sum(members, ({ bytes }) => bytes) + shared;
      const limit = run.script.demand.memory;
      const exceeded = memory > limit && this.#proportionalBytes(members) + shared > limit;
      if (exceeded || run.script.isolated?.ranOutOfMemory()) run.kill('out-of-memory');
      used.memory += memory;
      used.cpuMs += sum(members, (entry) => this.#cpuSinceLastCheck(entry));
      for (const { pid } of members) seen.add(pid);
    }
    const now = performance.now();
    this.#usage = { cpu: Math.round((used.cpuMs / (now - this.#checkedAt)) * 1000), memory: used.memory };
    this.#checkedAt = now;
    for (const pid of this.#cpuMs.keys()) if (!seen.has(pid)) this.#cpuMs.delete(pid);
    if (this.#checks++ % DISK_EVERY === 0) await this.#checkDisk(entries);
  }

  /** Counts memory that forked processes share only once. Slower, so used only for a script above its limit. */
  #proportionalBytes(members: readonly ProcessEntry[]): number {
    return sum(members, ({ pid, bytes }) => this.#table.proportionalBytes(pid) ?? bytes);
  }

  #cpuSinceLastCheck({ pid, cpuMs }: ProcessEntry): number {
    const before = this.#cpuMs.get(pid) ?? 0;
    this.#cpuMs.set(pid, cpuMs);
    return Math.max(0, cpuMs - before);
  }

  async #checkDisk(entries: readonly ProcessEntry[]): Promise<void> {
    if (this.#maxDisk === Number.POSITIVE_INFINITY) return;
    for (const run of this.#runs) {
      const { input, output, state } = run.script.directory;
      const directories = [input, output, homeIn(state), temporaryIn(state)];
      const unlinked = unlinkedBytes(run.select(entries), statSync(output).dev);
      if (unlinked + (await measureDiskUse(directories, this.#maxDisk)) > this.#maxDisk) run.kill('disk-full');
    }
  }
}

const sum = <T>(items: readonly T[], value: (item: T) => number) =>
  items.reduce((total, item) => total + value(item), 0);

/**
 * What a script with a private /dev/shm has there. The memory of its processes contains only the parts that they have mapped,
 * which are counted twice. A cgroup counts exactly.
 */
function sharedMemoryBytes({ script: { isolated, uid } }: ProcessRun, members: readonly ProcessEntry[]): number {
  if (!isolated || isolated.limitsMemory) return 0;
  // Without a user id the first two are the supervisor and PID 1, which this manager may not look into.
  const inside = members.at(uid === undefined ? 2 : 0);
  try {
    if (!inside) return 0;
    const { blocks, bfree, bsize } = statfsSync(`/proc/${inside.pid}/root/dev/shm`);
    return (blocks - bfree) * bsize;
  } catch {
    return 0;
  }
}

/** Bytes of files on this device that a script has deleted and keeps open: they take space, but are in no directory. */
function unlinkedBytes(members: readonly ProcessEntry[], device: number): number {
  const files = new Map<number, number>();
  for (const { pid } of members) {
    for (const path of listDescriptors(pid)) {
      const file = statDeleted(path);
      if (file?.dev === device) files.set(file.ino, file.blocks * BLOCK_BYTES);
    }
  }
  return sum([...files.values()], (bytes) => bytes);
}

function listDescriptors(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((name) => `/proc/${pid}/fd/${name}`);
  } catch {
    return [];
  }
}

function statDeleted(path: string) {
  try {
    if (!readlinkSync(path).endsWith(' (deleted)')) return undefined;
    const file = statSync(path);
    return file.isFile() ? file : undefined;
  } catch {
    return undefined;
  }
}
