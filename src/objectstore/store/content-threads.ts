import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { Answer, Order } from './content-orders.ts';
import type { Thread } from './content-writer.ts';

type Listener = (answer: Answer) => void;

/** A thread spends much of its time waiting for the disk, so that two are useful on one core. */
const THREADS = Math.max(2, Math.min(4, availableParallelism()));

/** The threads that write content. They begin with the first content that needs one. */
export class ContentThreads {
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
      send: (order: Order, transfer: ArrayBuffer[] = []) => {
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
    worker.on('message', (answer: Answer) => this.#listeners.get(answer.id)?.listener(answer));
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
