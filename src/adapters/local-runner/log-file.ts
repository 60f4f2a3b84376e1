import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { open } from 'node:fs/promises';

/**
 * A line of the file is its time, one of these bytes, and what was printed, so that the file reads like `kubectl logs
 * --timestamps`. Notices are written by the manager; the answer to a synchronous call leaves them out. A notice that had to
 * break a line has its own byte, because the script did not print that newline.
 */
const MARK = { output: 0x20, notice: 0x09, breakingNotice: 0x0b } as const;

/** The length of the time and the byte after it. */
const HEAD_BYTES = '2026-01-01T00:00:00.000000000Z '.length;

const NEWLINE = 0x0a;
/** Written when this much is collected, so that a script that prints many short lines needs no large buffer. */
const WRITE_BYTES = 64 * 1024;

/**
 * Stores what an attempt prints, with the time of each line, up to a limit. Everything, unfinished lines too, is in the file
 * when the call returns: after kill -9, the next manager continues in the middle of a line.
 */
export class AttemptLog {
  readonly #file: number;
  readonly #maxBytes: number;
  #size: number;
  #inLine: boolean;
  #full: boolean;
  #closed = false;
  #waiting: (() => void)[] = [];

  constructor(path: string, maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#file = openSync(
      path,
      constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW,
      0o600,
    );
    this.#size = fstatSync(this.#file).size;
    const last = Buffer.alloc(1);
    this.#inLine = this.#size > 0 && readSync(this.#file, last, 0, 1, this.#size - 1) === 1 && last[0] !== NEWLINE;
    // The notice that the log is full makes it larger than the limit.
    this.#full = this.#size > maxBytes;
  }

  get size(): number {
    return this.#size;
  }

  get closed(): boolean {
    return this.#closed;
  }

  print(bytes: Uint8Array, at: number): void {
    if (this.#full || this.#closed) return;
    const head = lineHead(at, MARK.output);
    let pieces: Uint8Array[] = [];
    let length = 0;
    for (let from = 0; from < bytes.length; ) {
      const newline = bytes.indexOf(NEWLINE, from);
      const to = newline < 0 ? bytes.length : newline + 1;
      const heads = this.#inLine ? 0 : HEAD_BYTES;
      const left = this.#maxBytes - this.#size - length - heads;
      if (left <= 0) break;
      const text = bytes.subarray(from, Math.min(to, from + left));
      pieces.push(...(heads > 0 ? [head, text] : [text]));
      length += heads + text.length;
      from += text.length;
      this.#inLine = text.at(-1) !== NEWLINE;
      if (length >= WRITE_BYTES) {
        this.#append(pieces);
        pieces = [];
        length = 0;
      }
      if (from < to) break;
    }
    this.#append(pieces);
    if (this.#maxBytes - this.#size <= HEAD_BYTES) this.#fill(at);
    this.#wake();
  }

  /** Writes a line of the manager, also above the limit: there are few of them. */
  notice(text: string, at: number): void {
    if (this.#closed) return;
    const head = lineHead(at, this.#inLine ? MARK.breakingNotice : MARK.notice);
    this.#append([Buffer.from(this.#inLine ? '\n' : ''), head, Buffer.from(`oscar: ${text.replaceAll('\n', ' ')}\n`)]);
    this.#inLine = false;
    this.#wake();
  }

  /** Resolves when the log is larger than that, or closed. */
  grown(size: number): Promise<void> {
    if (this.#size > size || this.#closed) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    return promise;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    closeSync(this.#file);
    this.#wake();
  }

  #fill(at: number): void {
    this.#full = true;
    this.notice(`the log is full (${this.#maxBytes} bytes): what the script prints from here on is dropped`, at);
  }

  #append(pieces: Uint8Array[]): void {
    const bytes = Buffer.concat(pieces);
    try {
      for (let written = 0; written < bytes.length; ) {
        const count = writeSync(this.#file, bytes, written);
        written += count;
        this.#size += count;
      }
    } catch {
      // The disk is full or broken. The script continues, and its exit code decides; the rest of its output is lost.
      this.#full = true;
      this.#inLine = true;
    }
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}

function lineHead(at: number, mark: number): Buffer {
  const head = Buffer.alloc(HEAD_BYTES, mark);
  head.write(`${new Date(at).toISOString().slice(0, -1)}000000Z`, 'latin1');
  return head;
}

/** The memory that each reader takes. */
const READ_BYTES = 64 * 1024;

const LINE_END = 0x0a;
const SPACE = 0x20;

/** `printed` is exactly what the script printed, without notices. */
export type LogFormat = 'plain' | 'timestamps' | 'printed';

/**
 * Reads the log from its beginning. At the end of the file it calls `more` with the number of bytes read, which resolves to
 * true if the file has grown, and to false if it never will.
 */
export async function* readAttemptLog(
  path: string,
  presentation: LogFormat,
  more: (size: number) => Promise<boolean> = async () => false,
): AsyncGenerator<Uint8Array, undefined> {
  const presenter = new LogFormatter(presentation);
  await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  for (let position = 0; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, position);
    position += bytesRead;
    const shown = presenter.format(buffer.subarray(0, bytesRead));
    if (shown.length > 0) yield shown;
    if (bytesRead === 0 && !(await more(position))) break;
  }
  const rest = presenter.end();
  if (rest.length > 0) yield rest;
}

/** Accepts the file in pieces of any size. */
class LogFormatter {
  readonly #as: LogFormat;
  readonly #head = Buffer.alloc(HEAD_BYTES);
  #headBytes = 0;
  #shown = true;
  #heldNewline = false;

  constructor(as: LogFormat) {
    this.#as = as;
  }

  format(bytes: Uint8Array): Uint8Array {
    const parts: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; ) {
      if (this.#headBytes < HEAD_BYTES) at += this.#takeHead(bytes.subarray(at), parts);
      else at += this.#takeText(bytes.subarray(at), parts);
    }
    return Buffer.concat(parts);
  }

  end(): Uint8Array {
    return Buffer.from(this.#heldNewline ? '\n' : '');
  }

  #takeHead(bytes: Uint8Array, parts: Uint8Array[]): number {
    const taken = bytes.subarray(0, HEAD_BYTES - this.#headBytes);
    this.#head.set(taken, this.#headBytes);
    this.#headBytes += taken.length;
    if (this.#headBytes < HEAD_BYTES) return taken.length;
    const mark = this.#head[HEAD_BYTES - 1];
    this.#shown = this.#as !== 'printed' || mark === MARK.output;
    if (this.#heldNewline && mark !== MARK.breakingNotice) parts.push(Buffer.of(LINE_END));
    this.#heldNewline = false;
    if (this.#as === 'timestamps') parts.push(Buffer.from(this.#head.subarray(0, -1)), Buffer.of(SPACE));
    return taken.length;
  }

  #takeText(bytes: Uint8Array, parts: Uint8Array[]): number {
    const newline = bytes.indexOf(LINE_END);
    const line = newline < 0 ? bytes : bytes.subarray(0, newline + 1);
    // Only the next line tells whether the script printed this newline.
    const holds = this.#as === 'printed' && newline >= 0;
    if (this.#shown) parts.push(holds ? line.subarray(0, -1) : line);
    if (this.#shown && holds) this.#heldNewline = true;
    if (newline >= 0) this.#headBytes = 0;
    return line.length;
  }
}
