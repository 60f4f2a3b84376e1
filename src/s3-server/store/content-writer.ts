import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { Digests, WantedDigests } from '../lib/checksum.ts';
import { S3Error } from '../lib/errors.ts';

/** Bytes per message to the thread. Smaller batches cost more messages; with larger ones the disk starts later. */
const BATCH = 256 * 1024;

/** Batches in flight for one file. More would only cost memory, because the thread writes one after the other. */
const BATCHES = 4;

export interface WriterThread {
  send(order: WriterCommand, transfer?: ArrayBuffer[]): void;
}

/** Writes one content file. Bytes are copied once into batches, and batches are transferred to the thread. */
export class ContentWriter {
  /** The final name of the file. */
  readonly file: string;
  readonly copies = true;
  /** Called when a full writer can accept more. */
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

  /** Accepts the bytes. Returns whether it can accept more now; if not, it calls `onDrain` later. */
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

  /** Call it after the last byte. Resolves when the bytes are on disk, under their temporary name. */
  async finish(): Promise<Digests> {
    if (this.#filled > 0) this.#flush();
    const digests = await this.#request({ id: this.#id, kind: 'finish' });
    if (!digests) throw new S3Error('InternalError');
    return digests;
  }

  async publish(): Promise<void> {
    await this.#request({ id: this.#id, kind: 'publish', from: this.#paths.unfinished, to: this.#paths.final });
  }

  /** Removes the file if it is not published. */
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
    // A source that waits for `onDrain` continues to its end, and `finish` reports the error.
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

/** A command of the event loop to a writer thread, for the file with this id. */
export type WriterCommand = { readonly id: number } & (
  | { readonly kind: 'open'; readonly path: string; readonly wanted: WantedDigests }
  | { readonly kind: 'write'; readonly buffer: ArrayBuffer; readonly length: number }
  /** Everything is written: sync the file. */
  | { readonly kind: 'finish' }
  /** The content is verified: rename the file to its final name. */
  | { readonly kind: 'publish'; readonly from: string; readonly to: string }
  | { readonly kind: 'discard'; readonly path: string }
);

export type WriterReply = { readonly id: number } & (
  | { readonly kind: 'written'; readonly buffer: ArrayBuffer }
  | { readonly kind: 'finished'; readonly digests: Digests }
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly message: string; readonly full?: boolean }
);

type Listener = (answer: WriterReply) => void;

/** A thread waits for the disk most of the time, so two are useful even on one core. */
const THREADS = Math.max(2, Math.min(4, availableParallelism()));

/** The threads that write content. Each starts with the first file that needs it. */
export class ContentThreads {
  readonly #listeners = new Map<number, { readonly listener: Listener; readonly worker: Worker }>();
  readonly #workers = new Map<number, Worker>();
  /** Why a thread has ended. */
  readonly #endReasons = new WeakMap<Worker, string>();
  #next = 0;

  /** Chooses a thread for the file with this id. All commands for the file go there, in order. */
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
    worker.on('exit', () => this.#end(index, worker, 'the writer thread has ended'));
    this.#workers.set(index, worker);
    return worker;
  }

  /** Reports the end of a thread to all its writers, whose files are lost. The next file gets a new thread. */
  #end(index: number, worker: Worker, message: string): void {
    if (this.#endReasons.has(worker)) return;
    this.#endReasons.set(worker, message);
    if (this.#workers.get(index) === worker) this.#workers.delete(index);
    for (const [id, { listener, worker: its }] of this.#listeners) {
      if (its === worker) listener({ id, kind: 'failed', message });
    }
  }
}
