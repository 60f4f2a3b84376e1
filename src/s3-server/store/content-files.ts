import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { type FileHandle, open, readdir, unlink } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { syncDirectory } from '../../lib/sync-directory.ts';
import type { WantedDigests } from '../lib/digests.ts';
import type { ContentOrder, ContentReply } from './content-orders.ts';
import { ContentWriter, type Thread } from './content-writer.ts';

/** A piece of content: one file. */
export interface Segment {
  readonly file: string;
  readonly size: number;
}

/**
 * The files of content. Their names are random and say nothing about keys, so no key can be a path. A file is written
 * under `unfinished/`, synced, and renamed; only then may the database mention it.
 */
export class ContentFiles {
  readonly #directory: string;
  readonly #unfinished: string;
  readonly #threads = new ContentThreads();
  /** Files of this run that the database does not mention yet, or never will. */
  readonly #unsettled = new Set<string>();
  /** How many read a file; one that is to be removed waits for them. */
  readonly #readers = new Map<string, number>();
  readonly #doomed = new Set<string>();
  readonly #removals = new Set<Promise<void>>();
  /** The numbers under which the threads know files in the making. */
  readonly #ids = new Map<string, number>();
  #count = 0;

  constructor(directory: string) {
    this.#directory = join(directory, 'content');
    this.#unfinished = join(directory, 'unfinished');
    mkdirSync(this.#unfinished, { mode: 0o700, recursive: true });
    // The directory itself stays: on a full disk there may be no room for another.
    for (const name of readdirSync(this.#unfinished)) rmSync(join(this.#unfinished, name), { recursive: true });
    mkdirSync(this.#directory, { mode: 0o700, recursive: true });
    const present = new Set(readdirSync(this.#directory));
    for (let i = 0; i < 256; i++) {
      const name = i.toString(16).padStart(2, '0');
      if (!present.has(name)) mkdirSync(join(this.#directory, name), { mode: 0o700 });
    }
    syncDirectory(this.#directory);
    syncDirectory(directory);
  }

  /** Begins a file of `length` bytes. */
  create(length: number, wanted: WantedDigests): ContentWriter {
    const id = this.#count++;
    const file = randomBytes(16).toString('hex');
    const paths = { unfinished: join(this.#unfinished, file), final: this.#pathOf(file) };
    this.#unsettled.add(file);
    let writer: ContentWriter | undefined;
    const thread = this.#threads.choose(id, (answer) => writer?.answer(answer));
    writer = new ContentWriter(id, file, paths, thread, { wanted, length });
    this.#ids.set(file, id);
    return writer;
  }

  /** The database mentions the file now. */
  settle(file: string): void {
    this.#unsettled.delete(file);
    this.#forget(file);
  }

  /** Whatever has become of it: nothing is left of this file. */
  async abandon(writer: ContentWriter): Promise<void> {
    await writer.discard().catch(() => undefined);
    this.remove([writer.file]);
    this.settle(writer.file);
  }

  /** Keeps these files until the returned function is called. */
  hold(segments: readonly Segment[]): () => void {
    for (const { file } of segments) this.#readers.set(file, (this.#readers.get(file) ?? 0) + 1);
    return () => {
      for (const { file } of segments) {
        const left = (this.#readers.get(file) ?? 1) - 1;
        if (left > 0) this.#readers.set(file, left);
        else {
          this.#readers.delete(file);
          if (this.#doomed.delete(file)) this.remove([file]);
        }
      }
    };
  }

  open(file: string): Promise<FileHandle> {
    return open(this.#pathOf(file), 'r');
  }

  /** Once nobody reads them. The database no longer mentions them; should the process die first, the sweep comes. */
  remove(files: readonly string[]): void {
    for (const file of files) {
      if (this.#readers.has(file)) this.#doomed.add(file);
      else this.#unlink(file);
    }
  }

  /** Removes files that the database does not mention: what a crash has left behind. */
  async sweep(isMentioned: (file: string) => boolean, stopped: () => boolean): Promise<void> {
    for (const folder of await readdir(this.#directory)) {
      for (const file of await readdir(join(this.#directory, folder))) {
        if (stopped()) return;
        const inUse = this.#unsettled.has(file) || this.#readers.has(file) || isMentioned(file);
        if (!inUse) await unlink(join(this.#directory, folder, file)).catch(() => undefined);
      }
    }
  }

  /** Whoever still reads has the file open, or is too late. */
  async close(): Promise<void> {
    for (const file of this.#doomed) this.#unlink(file);
    this.#doomed.clear();
    await Promise.all(this.#removals);
    await this.#threads.close();
  }

  #unlink(file: string): void {
    const removal = unlink(this.#pathOf(file))
      .catch(() => undefined)
      .finally(() => this.#removals.delete(removal));
    this.#removals.add(removal);
  }

  #forget(file: string): void {
    const id = this.#ids.get(file);
    if (id !== undefined) this.#threads.forget(id);
    this.#ids.delete(file);
  }

  #pathOf(file: string): string {
    return join(this.#directory, file.slice(0, 2), file);
  }
}

type Listener = (answer: ContentReply) => void;

/** A thread spends much of its time waiting for the disk, so that two are useful on one core. */
const THREADS = Math.max(2, Math.min(4, availableParallelism()));

/** The threads that write content. They begin with the first content that needs one. */
class ContentThreads {
  readonly #listeners = new Map<number, { readonly listener: Listener; readonly worker: Worker }>();
  readonly #workers = new Map<number, Worker>();
  /** Threads that have ended, and why. */
  readonly #lost = new WeakMap<Worker, string>();
  #next = 0;

  /** A thread for the content of this number; all its orders go there, in order. */
  choose(id: number, listener: Listener): Thread {
    const worker = this.#worker(this.#next++ % THREADS);
    this.#listeners.set(id, { listener, worker });
    return {
      send: (order: ContentOrder, transfer: ArrayBuffer[] = []) => {
        const message = this.#lost.get(worker);
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
    worker.on('message', (answer: ContentReply) => this.#listeners.get(answer.id)?.listener(answer));
    worker.on('error', (error) => this.#end(index, worker, error instanceof Error ? error.message : String(error)));
    worker.on('exit', () => this.#end(index, worker, 'its thread has ended'));
    this.#workers.set(index, worker);
    return worker;
  }

  /** A thread that ends takes what it was writing with it. Who wrote there is told; the next content gets a new one. */
  #end(index: number, worker: Worker, message: string): void {
    if (this.#lost.has(worker)) return;
    this.#lost.set(worker, message);
    if (this.#workers.get(index) === worker) this.#workers.delete(index);
    for (const [id, { listener, worker: its }] of this.#listeners) {
      if (its === worker) listener({ id, kind: 'failed', message });
    }
  }
}
