import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import type { CallParts } from './call-layout.ts';

/** Between two looks at what was printed. */
const EVERY_MS = 100;

const BLOCK = 64 * 1024;

/** What is told while the script runs: whoever hears it keeps it in memory. */
export const MOST_TOLD = 1024 * 1024;

/** What is kept of one call. */
const MOST_KEPT = 64 * 1024 * 1024;

/** Not through a link, and without waiting at a pipe. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Reads what the script prints while it does, tells the first of it, and keeps all with its times. */
export class CallOutput {
  readonly #parts: CallParts;
  readonly #tell: (bytes: Uint8Array) => void;
  readonly #over = new AbortController();
  readonly #stamping = new Stamping();
  #following: Promise<void> | undefined;
  #kept = 0;
  #told = 0;

  constructor(parts: CallParts, tell: (bytes: Uint8Array) => void) {
    this.#parts = parts;
    this.#tell = tell;
  }

  follow(): void {
    this.#following ??= this.#follow();
  }

  /** Resolves when everything is read that was printed until now. */
  async end(): Promise<void> {
    this.#over.abort();
    await this.#following;
  }

  async #follow(): Promise<void> {
    const log = await open(this.#parts.log, 'w', 0o600).catch(() => undefined);
    const printed = await open(this.#parts.printed, FLAGS).catch(() => undefined);
    try {
      // The script may have put anything there.
      if (!log || !printed || !(await printed.stat()).isFile()) return;
      for (let last = false; !last; ) {
        last = this.#over.signal.aborted;
        await this.#read(printed, log);
        if (!last) await pause(EVERY_MS, undefined, { signal: this.#over.signal }).catch(() => undefined);
      }
    } catch {
      // A disk that is full: what is printed after that is not kept.
    } finally {
      await printed?.close();
      await log?.close();
    }
  }

  async #read(printed: FileHandle, log: FileHandle): Promise<void> {
    for (let block = Buffer.allocUnsafe(BLOCK); this.#kept < MOST_KEPT; block = Buffer.allocUnsafe(BLOCK)) {
      const { bytesRead } = await printed.read(block, 0, BLOCK, this.#kept);
      if (bytesRead === 0) return;
      this.#kept += bytesRead;
      const stamped = this.#stamping.add(block.subarray(0, bytesRead), Date.now());
      await log.write(stamped);
      if (this.#told < MOST_TOLD) this.#tell(stamped);
      this.#told += stamped.length;
    }
  }
}

/** As Kubernetes writes the time of a line: always so many bytes, the blank after it included. */
export const STAMP_BYTES = 31;

const NEWLINE = 0x0a;

const stamp = (now: number) => Buffer.from(`${new Date(now).toISOString().slice(0, -1)}000000Z `, 'latin1');

/** Puts the time before each line of what comes piece by piece. */
export class Stamping {
  #inLine = false;

  add(bytes: Uint8Array, now: number): Uint8Array {
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; ) {
      const end = bytes.indexOf(NEWLINE, at);
      const next = end < 0 ? bytes.length : end + 1;
      if (!this.#inLine) pieces.push(stamp(now));
      pieces.push(bytes.subarray(at, next));
      this.#inLine = end < 0;
      at = next;
    }
    return Buffer.concat(pieces);
  }
}

/** Takes the times away again. */
export class Unstamping {
  /** How much of the time of the line that has begun is still to come. */
  #left = STAMP_BYTES;

  add(bytes: Uint8Array): Uint8Array {
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; ) {
      const skipped = Math.min(this.#left, bytes.length - at);
      this.#left -= skipped;
      at += skipped;
      const end = bytes.indexOf(NEWLINE, at);
      const next = end < 0 ? bytes.length : end + 1;
      pieces.push(bytes.subarray(at, next));
      if (end >= 0) this.#left = STAMP_BYTES;
      at = next;
    }
    return Buffer.concat(pieces);
  }
}
