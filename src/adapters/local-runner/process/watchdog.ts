import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { homeIn, temporaryIn } from './hand-over.ts';
import type { ProcessRun } from './process-run.ts';
import type { ProcessEntry, ProcessTable } from './process-table.ts';

/** Shorter: memory that grows fast is seen earlier. Longer: less to do. One look at 100 processes takes 2 ms. */
const EVERY_MS = 300;
/** The looks take at most this part of the time, however many processes there are. */
const AT_MOST = 1 / 20;
/** Looks at the processes for each look at the disk, which costs more and fills more slowly. */
const DISK_EVERY = 5;

/** Sees to it that scripts keep to their memory and disk, and knows what they use. Looks only while something runs. */
export class Watchdog {
  readonly #table: ProcessTable;
  readonly #maxDisk: number;
  readonly #runs = new Set<ProcessRun>();
  readonly #cpuMs = new Map<number, number>();
  #usage = { cpu: 0, memory: 0 };
  #looks = 0;
  #lookedAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #looking = false;

  constructor(table: ProcessTable, maxDisk: number) {
    this.#table = table;
    this.#maxDisk = maxDisk;
  }

  add(run: ProcessRun): void {
    this.#runs.add(run);
    void run.ended.then(() => this.#runs.delete(run));
    this.#schedule(EVERY_MS);
  }

  usage(): { cpu: number; memory: number } {
    return this.#runs.size === 0 ? { cpu: 0, memory: 0 } : this.#usage;
  }

  close(): void {
    this.#runs.clear();
    clearTimeout(this.#timer);
  }

  #schedule(milliseconds: number): void {
    if (this.#timer || this.#looking) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#lookAndGoOn();
    }, milliseconds);
  }

  async #lookAndGoOn(): Promise<void> {
    this.#looking = true;
    const begun = performance.now();
    // A look that fails, as for want of file descriptors, is made up for by the next.
    await this.#look().catch(() => undefined);
    this.#looking = false;
    if (this.#runs.size > 0) this.#schedule(Math.max(EVERY_MS, (performance.now() - begun) / AT_MOST));
  }

  async #look(): Promise<void> {
    const entries = (await this.#table.read()).filter(({ zombie }) => !zombie);
    const used = { cpuMs: 0, memory: 0 };
    const seen = new Set<number>();
    for (const run of this.#runs) {
      const members = entries.filter((entry) => run.owns(entry));
      run.see(members);
      const memory = sum(members, ({ bytes }) => bytes);
      if (memory > run.script.demand.memory && this.#fairly(members) > run.script.demand.memory)
        run.kill('out-of-memory');
      used.memory += memory;
      used.cpuMs += sum(members, (entry) => this.#since(entry));
      for (const { pid } of members) seen.add(pid);
    }
    const now = performance.now();
    this.#usage = { cpu: Math.round((used.cpuMs / (now - this.#lookedAt)) * 1000), memory: used.memory };
    this.#lookedAt = now;
    for (const pid of this.#cpuMs.keys()) if (!seen.has(pid)) this.#cpuMs.delete(pid);
    if (this.#looks++ % DISK_EVERY === 0) await this.#lookAtDisk();
  }

  /** Processes that were forked share most of what they have: it is counted once only if it comes to that. */
  #fairly(members: readonly ProcessEntry[]): number {
    return sum(members, ({ pid, bytes }) => this.#table.fairBytes(pid) ?? bytes);
  }

  /** Processor time since the last look. */
  #since({ pid, cpuMs }: ProcessEntry): number {
    const before = this.#cpuMs.get(pid) ?? 0;
    this.#cpuMs.set(pid, cpuMs);
    return Math.max(0, cpuMs - before);
  }

  async #lookAtDisk(): Promise<void> {
    if (this.#maxDisk === Number.POSITIVE_INFINITY) return;
    for (const run of this.#runs) {
      const { input, output, state } = run.script.directory;
      const directories = [input, output, homeIn(state), temporaryIn(state)];
      if ((await diskUse(directories, this.#maxDisk)) > this.#maxDisk) run.kill('disk-full');
    }
  }
}

const sum = <T>(items: readonly T[], of: (item: T) => number) => items.reduce((total, item) => total + of(item), 0);

const BLOCK_BYTES = 512;
/** What an entry of a directory costs at the least, so that a million empty files are not nothing. */
const ENTRY_BYTES = 512;

/** Bytes on the disk below these directories; ends early above the limit. Something may vanish while it looks. */
async function diskUse(directories: readonly string[], limit: number): Promise<number> {
  let total = 0;
  const pending = [...directories];
  for (let path = pending.pop(); path !== undefined && total <= limit; path = pending.pop()) {
    for (const entry of await readdir(path, { withFileTypes: true }).catch(() => [])) {
      const child = join(path, entry.name);
      total += ENTRY_BYTES + ((await lstat(child).catch(() => undefined))?.blocks ?? 0) * BLOCK_BYTES;
      if (entry.isDirectory()) pending.push(child);
      if (total > limit) break;
    }
  }
  return total;
}
