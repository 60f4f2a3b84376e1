import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Made at once: starting `mkfifo` costs 2 ms, each pipe 0.1 ms. */
const BATCH = 32;
const LOW = 8;

/** Named pipes, made before they are needed: Node has no call for it, and a job is not to wait for a program that has. */
export class Pipes {
  readonly #directory: string;
  readonly #ready: string[];
  #making: Promise<void> | undefined;

  constructor(directory: string) {
    this.#directory = join(directory, 'pipes');
    mkdirSync(directory, { recursive: true, mode: 0o711 });
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
    const found = readdirSync(this.#directory, { withFileTypes: true });
    this.#ready = found.filter((entry) => entry.isFIFO()).map(({ name }) => join(this.#directory, name));
  }

  /** Puts one where the path says; the directories are on the same file system. */
  async take(path: string): Promise<void> {
    for (;;) {
      const ready = this.#ready.pop();
      if (this.#ready.length < LOW) this.#make();
      if (!ready) await this.#making;
      else if (moved(ready, path)) return;
    }
  }

  /** So that the first job does not wait either. */
  prepare(): void {
    if (this.#ready.length < LOW) this.#make();
  }

  /** Waits for the program that makes more, if it runs. */
  async close(): Promise<void> {
    await this.#making?.catch(() => undefined);
  }

  #make(): void {
    if (this.#making) return;
    this.#making = this.#makeBatch();
    // Whoever waits hears of it; the next one tries again.
    this.#making.catch(() => undefined);
  }

  async #makeBatch(): Promise<void> {
    const paths = Array.from({ length: BATCH }, () => join(this.#directory, randomUUID()));
    try {
      await run('mkfifo', ['-m', '600', ...paths]);
      this.#ready.push(...paths);
    } finally {
      this.#making = undefined;
    }
  }
}

/** False when another manager on the same directory was faster. */
function moved(from: string, to: string): boolean {
  try {
    renameSync(from, to);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
}
