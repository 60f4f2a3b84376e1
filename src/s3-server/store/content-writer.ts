import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { Digests, WantedDigests } from '../lib/checksum.ts';
import { S3Error } from '../lib/errors.ts';

/** Bytes given to the thread at once. Smaller: more messages. Larger: the disk begins later. */
const BATCH = 256 * 1024;

/** Batches on their way for one content; more are only memory, since the thread writes one after the other. */
const BATCHES = 4;

export interface WriterThread {
  send(order: WriterCommand, transfer?: ArrayBuffer[]): void;
}

/** One content file in the making. Bytes are copied once into batches, and batches are moved to the thread. */
export class ContentWriter {
  /** The name that the file will have. */
  readonly file: string;
  readonly copies = true;
  /** Called when a writer that was full can take more. */
  onDrain: () => void = () => undefined;
  readonly #id: number;
  readonly #thread: WriterThread;
  readonly #paths: { readonly unfinished: string; readonly final: string };
  readonly #largest: number;
  readonly #free: ArrayBuffer[] = [];
  #batch: Uint8Array<ArrayBuffer> | undefined;
  #filled = 0;
  #inFlight = 0;
  #failure: S3Error | undefined;
  #pendingReply: { resolve: (digests: Digests | undefined) => void; reject: (error: Error) => void } | undefined;

  constructor(
    id: number,
    file: string,
    paths: { readonly unfinished: string; readonly final: string },
    thread: WriterThread,
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
    return this.#inFlight < BATCHES;
  }

  /** All bytes are there: resolves when they are on the disk, under a name that nobody knows yet. */
  async finish(): Promise<Digests> {
    if (this.#filled > 0) this.#flush();
    const digests = await this.#request({ id: this.#id, kind: 'finish' });
    if (!digests) throw new S3Error('InternalError');
    return digests;
  }

  async publish(): Promise<void> {
    await this.#request({ id: this.#id, kind: 'publish', from: this.#paths.unfinished, to: this.#paths.final });
  }

  /** Before `publish`: nothing is left. */
  async discard(): Promise<void> {
    this.#failure = undefined;
    await this.#request({ id: this.#id, kind: 'discard', path: this.#paths.unfinished });
  }

  onReply(answer: WriterReply): void {
    switch (answer.kind) {
      case 'written':
        this.#free.push(answer.buffer);
        this.#inFlight--;
        if (this.#inFlight === BATCHES - 1) this.onDrain();
        return;
      case 'failed':
        return this.#fail(
          answer.full
            ? new S3Error('XMinioStorageFull')
            : new S3Error('ServiceUnavailable', `The store could not write the content: ${answer.message}.`),
        );
      default: {
        const pending = this.#pendingReply;
        this.#pendingReply = undefined;
        pending?.resolve(answer.kind === 'finished' ? answer.digests : undefined);
      }
    }
  }

  #fail(error: S3Error): void {
    this.#failure ??= error;
    const pending = this.#pendingReply;
    this.#pendingReply = undefined;
    pending?.reject(error);
    // Whoever waits to write goes on to the end, and hears of it there.
    this.#inFlight = 0;
    this.onDrain();
  }

  #flush(): void {
    const batch = this.#batch;
    if (!batch) return;
    this.#thread.send({ id: this.#id, kind: 'write', buffer: batch.buffer, length: this.#filled }, [batch.buffer]);
    this.#batch = undefined;
    this.#filled = 0;
    this.#inFlight++;
  }

  #request(order: WriterCommand): Promise<Digests | undefined> {
    if (this.#failure) return Promise.reject(this.#failure);
    const { promise, resolve, reject } = Promise.withResolvers<Digests | undefined>();
    this.#pendingReply = { resolve, reject };
    this.#thread.send(order);
    return promise;
  }
}

/** What the event loop tells a thread that writes content, about the content of this number. */
export type WriterCommand = { readonly id: number } & (
  | { readonly kind: 'open'; readonly path: string; readonly wanted: WantedDigests }
  | { readonly kind: 'write'; readonly buffer: ArrayBuffer; readonly length: number }
  /** Everything is written: to the disk with it. */
  | { readonly kind: 'finish' }
  /** It is what it should be: it gets its name. */
  | { readonly kind: 'publish'; readonly from: string; readonly to: string }
  | { readonly kind: 'discard'; readonly path: string }
);

export type WriterReply = { readonly id: number } /** The buffer comes back, to be used again. */ & (
  | { readonly kind: 'written'; readonly buffer: ArrayBuffer }
  | { readonly kind: 'finished'; readonly digests: Digests }
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly message: string; readonly full?: boolean }
);

type Listener = (answer: WriterReply) => void;

/** A thread spends much of its time waiting for the disk, so that two are useful on one core. */
const THREADS = Math.max(2, Math.min(4, availableParallelism()));

/** The threads that write content. They begin with the first content that needs one. */
export class ContentThreads {
  readonly #listeners = new Map<number, { readonly listener: Listener; readonly worker: Worker }>();
  readonly #workers = new Map<number, Worker>();
  /** Threads that have ended, and why. */
  readonly #endReasons = new WeakMap<Worker, string>();
  #next = 0;

  /** A thread for the content of this number; all its orders go there, in order. */
  choose(id: number, listener: Listener): WriterThread {
    const worker = this.#worker(this.#next++ % THREADS);
    this.#listeners.set(id, { listener, worker });
    return {
      send: (order: WriterCommand, transfer: ArrayBuffer[] = []) => {
        const message = this.#endReasons.get(worker);
        if (message === undefined) worker.postMessage(order, transfer);
        else queueMicrotask(() => listener({ id, kind: 'failed', message }));
      },
    };
  }

  forget(id: number): void {
    this.#listeners.delete(id);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => worker.terminate()));
  }

  #worker(index: number): Worker {
    const known = this.#workers.get(index);
    if (known) return known;
    const worker = new Worker(new URL('./content-worker.ts', import.meta.url));
    worker.unref();
    worker.on('message', (answer: WriterReply) => this.#listeners.get(answer.id)?.listener(answer));
    worker.on('error', (error) => this.#end(index, worker, error instanceof Error ? error.message : String(error)));
    worker.on('exit', () => this.#end(index, worker, 'its thread has ended'));
    this.#workers.set(index, worker);
    return worker;
  }

  /** A thread that ends takes what it was writing with it. Who wrote there is told; the next content gets a new one. */
  #end(index: number, worker: Worker, message: string): void {
    if (this.#endReasons.has(worker)) return;
    this.#endReasons.set(worker, message);
    if (this.#workers.get(index) === worker) this.#workers.delete(index);
    for (const [id, { listener, worker: its }] of this.#listeners) {
      if (its === worker) listener({ id, kind: 'failed', message });
    }
  }
}
