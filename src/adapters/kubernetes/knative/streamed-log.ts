import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';

/** The log that a call has streamed so far, for several followers. */
export class StreamedLog {
  readonly #chunks: Uint8Array[] = [];
  #size = 0;
  #ended = false;
  #news = Promise.withResolvers<void>();

  add(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    this.#notify();
  }

  end(): void {
    this.#ended = true;
    this.#notify();
  }

  get size(): number {
    return this.#size;
  }

  /** Resolves when there is more, or it has ended. Call it before reading. */
  get nextChange(): Promise<void> {
    return this.#news.promise;
  }

  get bytes(): Uint8Array {
    return Buffer.concat(this.#chunks);
  }

  /** Reads from the beginning; with `follow` until the end or until the signal aborts. */
  async *read(follow: boolean, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const left = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
    for (let at = 0; !signal.aborted; ) {
      const news = this.#news.promise;
      for (; at < this.#chunks.length; at++) {
        const chunk = this.#chunks[at];
        if (chunk) yield chunk;
      }
      if (!follow || this.#ended) return;
      await Promise.race([news, left]);
    }
  }

  #notify(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}

/**
 * How long output is known to the calling manager alone; the second is for calls that print continuously. A longer time shows
 * it later to readers of other managers; a shorter one writes the complete output to the store more often.
 */
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 5_000;

/**
 * Stores the output so far where every manager of the cluster can read it, until the signal aborts. A call that ends before
 * the first wait is over costs nothing.
 */
export async function keepLogBuffer(
  log: StreamedLog,
  keep: (bytes: Uint8Array) => Promise<void>,
  over: AbortSignal,
  report: (problem: unknown) => void,
): Promise<void> {
  const ended = over.aborted ? Promise.resolve() : once(over, 'abort');
  let kept = 0;
  for (let wait = FIRST_WAIT_MS; !over.aborted; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
    const { nextChange: news } = log;
    if (log.size === kept) await Promise.race([news, ended]);
    await pause(wait, undefined, { signal: over }).catch(() => undefined);
    if (over.aborted || log.size === kept) continue;
    const { bytes } = log;
    try {
      await keep(bytes);
      kept = bytes.length;
    } catch (problem) {
      report(problem);
    }
  }
}
