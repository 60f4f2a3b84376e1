import type { Digests, WantedDigests } from '../lib/digests.ts';
import { S3Error } from '../lib/errors.ts';
import type { ContentOrder, ContentReply } from './content-orders.ts';

/** Bytes given to the thread at once. Smaller: more messages. Larger: the disk begins later. */
const BATCH = 256 * 1024;

/** Batches on their way for one content; more are only memory, since the thread writes one after the other. */
const BATCHES = 4;

export interface Thread {
  send(order: ContentOrder, transfer?: ArrayBuffer[]): void;
}

/** One content file in the making. Bytes are copied once into batches, and batches are moved to the thread. */
export class ContentWriter {
  /** The name that the file will have. */
  readonly file: string;
  readonly copies = true;
  /** Called when a writer that was full can take more. */
  onDrain: () => void = () => undefined;
  readonly #id: number;
  readonly #thread: Thread;
  readonly #paths: { readonly unfinished: string; readonly final: string };
  readonly #largest: number;
  readonly #free: ArrayBuffer[] = [];
  #batch: Uint8Array<ArrayBuffer> | undefined;
  #filled = 0;
  #travelling = 0;
  #failure: S3Error | undefined;
  #answered: { resolve: (digests: Digests | undefined) => void; reject: (error: Error) => void } | undefined;

  constructor(
    id: number,
    file: string,
    paths: { readonly unfinished: string; readonly final: string },
    thread: Thread,
    { wanted, length }: { readonly wanted: WantedDigests; readonly length: number },
  ) {
    this.#id = id;
    this.file = file;
    this.#paths = paths;
    this.#thread = thread;
    this.#largest = Math.max(1, Math.min(BATCH, length));
    thread.send({ id, kind: 'open', path: paths.unfinished, wanted });
  }

  /** Takes the bytes, and says whether it can take more now; if not, `onDrain` will be called. */
  write(bytes: Uint8Array): boolean {
    for (let at = 0; at < bytes.length; ) {
      this.#batch ??= new Uint8Array(this.#free.pop() ?? new ArrayBuffer(this.#largest));
      const taken = bytes.subarray(at, at + this.#batch.length - this.#filled);
      this.#batch.set(taken, this.#filled);
      this.#filled += taken.length;
      at += taken.length;
      if (this.#filled === this.#batch.length) this.#flush();
    }
    return this.#travelling < BATCHES;
  }

  /** All bytes are there: resolves when they are on the disk, under a name that nobody knows yet. */
  async finish(): Promise<Digests> {
    if (this.#filled > 0) this.#flush();
    const digests = await this.#ask({ id: this.#id, kind: 'finish' });
    if (!digests) throw new S3Error('InternalError');
    return digests;
  }

  async publish(): Promise<void> {
    await this.#ask({ id: this.#id, kind: 'publish', from: this.#paths.unfinished, to: this.#paths.final });
  }

  /** Before `publish`: nothing is left. */
  async discard(): Promise<void> {
    this.#failure = undefined;
    await this.#ask({ id: this.#id, kind: 'discard', path: this.#paths.unfinished });
  }

  answer(answer: ContentReply): void {
    switch (answer.kind) {
      case 'written':
        this.#free.push(answer.buffer);
        this.#travelling--;
        if (this.#travelling === BATCHES - 1) this.onDrain();
        return;
      case 'failed':
        return this.#fail(
          answer.full
            ? new S3Error('XMinioStorageFull')
            : new S3Error('ServiceUnavailable', `The store could not write the content: ${answer.message}.`),
        );
      default: {
        const answered = this.#answered;
        this.#answered = undefined;
        answered?.resolve(answer.kind === 'finished' ? answer.digests : undefined);
      }
    }
  }

  #fail(error: S3Error): void {
    this.#failure ??= error;
    const answered = this.#answered;
    this.#answered = undefined;
    answered?.reject(error);
    // Whoever waits to write goes on to the end, and hears of it there.
    this.#travelling = 0;
    this.onDrain();
  }

  #flush(): void {
    const batch = this.#batch;
    if (!batch) return;
    this.#thread.send({ id: this.#id, kind: 'write', buffer: batch.buffer, length: this.#filled }, [batch.buffer]);
    this.#batch = undefined;
    this.#filled = 0;
    this.#travelling++;
  }

  #ask(order: ContentOrder): Promise<Digests | undefined> {
    if (this.#failure) return Promise.reject(this.#failure);
    const { promise, resolve, reject } = Promise.withResolvers<Digests | undefined>();
    this.#answered = { resolve, reject };
    this.#thread.send(order);
    return promise;
  }
}
