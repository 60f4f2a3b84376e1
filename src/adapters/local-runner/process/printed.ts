import { readSync } from 'node:fs';
import { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/**
 * How much of what one script prints is taken in how many milliseconds: 40 MB/s. A script that prints without end waits
 * for us then, instead of the manager having no time for anybody else.
 */
const SHARE_BYTES = 2 * 2 ** 20;
const SHARE_MS = 50;

/** What a pipe can hold at the most, in pieces of the size that is read at once. */
const PIECE_BYTES = 64 * 1024;
const PIECES = 16;

/** Reads the pipe that a script prints to, as things come. */
export class ProcessOutput {
  readonly #socket: Socket | undefined;
  readonly #file: number | undefined;
  readonly #print: (bytes: Uint8Array, at: number) => void;
  readonly #end = Promise.withResolvers<void>();
  #taken = 0;
  #since = 0;
  #hurry = false;
  #over = false;

  /** Without a file there is nothing to read. */
  constructor(file: number | undefined, print: (bytes: Uint8Array, at: number) => void) {
    this.#print = print;
    if (file === undefined) {
      this.#over = true;
      this.#end.resolve();
      return;
    }
    const socket = new Socket({ fd: file, readable: true, writable: false });
    this.#socket = socket;
    this.#file = file;
    socket.on('data', (bytes) => {
      print(bytes, Date.now());
      this.#pace(bytes.length);
    });
    for (const event of ['end', 'error', 'close'] as const) {
      socket.on(event, () => {
        this.#over = true;
        this.#end.resolve();
      });
    }
  }

  /** Resolves when nobody has the pipe any more and all of it has been read; or it was closed. */
  get end(): Promise<void> {
    return this.#end.promise;
  }

  /** Takes what is in the pipe now. Once the wrapper is gone, it would go with a manager that dies before it has read it. */
  catchUp(): void {
    this.#hurry = true;
    while (!this.#over && this.#socket?.read() !== null);
    if (this.#over || this.#file === undefined) return;
    try {
      for (let i = 0; i < PIECES; i++) {
        const piece = Buffer.allocUnsafe(PIECE_BYTES);
        const count = readSync(this.#file, piece);
        if (count === 0) return;
        this.#print(piece.subarray(0, count), Date.now());
      }
    } catch {
      // It is empty.
    }
  }

  /** Nobody writes any more, as far as can be told: reads what is there. Somebody who escaped is not waited for long. */
  async drain(deadline: number): Promise<void> {
    this.#hurry = true;
    this.#socket?.resume();
    const over = new AbortController();
    await Promise.race([this.end, pause(deadline, undefined, { signal: over.signal }).catch(() => undefined)]);
    over.abort();
    this.close();
  }

  close(): void {
    this.#over = true;
    this.#socket?.destroy();
  }

  #pace(bytes: number): void {
    const now = performance.now();
    if (now - this.#since > SHARE_MS) {
      this.#since = now;
      this.#taken = 0;
    }
    this.#taken += bytes;
    if (this.#hurry || this.#taken < SHARE_BYTES) return;
    this.#socket?.pause();
    setTimeout(() => this.#socket?.resume(), this.#since + SHARE_MS - now);
  }
}
