import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import type { CallParts } from './call-layout.ts';

/** How often the output is read. */
const EVERY_MS = 100;

const BLOCK = 64 * 1024;

/** How much output is streamed while the script runs. The manager keeps it in memory, so it is limited. */
export const MAX_STREAMED_BYTES = 1024 * 1024;

/** How much output of one call is stored. */
const MOST_KEPT = 64 * 1024 * 1024;

/** Does not follow links and does not block on pipes. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Reads the output of a running script. Streams its beginning, and stores all of it with times. */
export class CallOutput {
  readonly #parts: CallParts;
  readonly #tell: (bytes: Uint8Array) => void;
  readonly #over = new AbortController();
  readonly #stamping = new LineStamper();
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

  /** Resolves when all output up to now has been read. */
  async end(): Promise<void> {
    this.#over.abort();
    await this.#following;
  }

  async #follow(): Promise<void> {
    const log = await open(this.#parts.log, 'w', 0o600).catch(() => undefined);
    const printed = await open(this.#parts.printed, FLAGS).catch(() => undefined);
    try {
      // The script may have replaced the file by anything.
      if (!log || !printed || !(await printed.stat()).isFile()) return;
      for (let last = false; !last; ) {
        last = this.#over.signal.aborted;
        await this.#read(printed, log);
        if (!last) await pause(EVERY_MS, undefined, { signal: this.#over.signal }).catch(() => undefined);
      }
    } catch {
      // The disk is full: later output is lost.
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
      if (this.#told < MAX_STREAMED_BYTES) this.#tell(stamped);
      this.#told += stamped.length;
    }
  }
}

/** The length of a time as Kubernetes writes it, including the blank after it. */
export const STAMP_BYTES = 31;

const NEWLINE = 0x0a;

const stamp = (now: number) => Buffer.from(`${new Date(now).toISOString().slice(0, -1)}000000Z `, 'latin1');

/** Inserts the time before each line of a stream. */
export class LineStamper {
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

/** Removes the times again. */
export class LineUnstamper {
  /** How many bytes of the current line's time are still to be skipped. */
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
