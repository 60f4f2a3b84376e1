/** What a call has told of its log so far, and whoever follows it. */
export class ToldLog {
  readonly #chunks: Uint8Array[] = [];
  #size = 0;
  #ended = false;
  #news = Promise.withResolvers<void>();

  add(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    this.#ring();
  }

  end(): void {
    this.#ended = true;
    this.#ring();
  }

  get size(): number {
    return this.#size;
  }

  /** Resolves when there is more, or it has ended. Ask before you look. */
  get news(): Promise<void> {
    return this.#news.promise;
  }

  get bytes(): Uint8Array {
    return Buffer.concat(this.#chunks);
  }

  /** From the beginning; with `follow` until its end, or until the signal says so. */
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

  #ring(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}
