import type { ObjectStore } from '../ports/index.ts';
import { listBuckets } from './buckets.ts';

export interface Counted {
  readonly buckets: number;
  readonly objects: number;
}

export interface StoreCountOptions {
  /** Milliseconds for which a count is fresh. With 0 the store is counted each time. */
  readonly goodMs: number;
  /** A monotonic clock. */
  readonly elapsed?: () => number;
}

/** Up to this multiple of `goodMs`, callers get the last count while the next one runs. */
const OLDER = 2;

/**
 * Caches the number of buckets and objects. Counting an external store takes several requests per bucket, and dashboards
 * poll the status, so the store is counted in the background and only when the last count is stale. A caller waits for a
 * count only after a longer pause, or after a change on this manager.
 */
export class StoreCount {
  readonly #objects: ObjectStore;
  readonly #goodMs: number;
  readonly #elapsed: () => number;
  #last: (Counted & { readonly at: number }) | undefined;
  #counting: Promise<Counted> | undefined;
  /** Grows with each change: a count that began before the change is discarded. */
  #changes = 0;

  constructor(objects: ObjectStore, { goodMs, elapsed = () => performance.now() }: StoreCountOptions) {
    this.#objects = objects;
    this.#goodMs = goodMs;
    this.#elapsed = elapsed;
  }

  /** Returns a count that is at most twice as old as `goodMs`. */
  async read(): Promise<Counted> {
    const last = this.#last;
    const age = last ? this.#elapsed() - last.at : Number.POSITIVE_INFINITY;
    if (last && age < this.#goodMs) return last;
    const counting = this.#count();
    if (!last || age >= this.#goodMs * OLDER) return counting;
    // A caller that comes when the last count is too old gets the error.
    counting.catch(() => undefined);
    return last;
  }

  /** Called after buckets were created or removed here: the next `read` counts again. */
  changed(): void {
    this.#changes++;
    this.#last = undefined;
    this.#counting = undefined;
  }

  #count(): Promise<Counted> {
    if (this.#counting) return this.#counting;
    const changes = this.#changes;
    const counting = (async () => {
      const at = this.#elapsed();
      const buckets = await listBuckets({ kind: 'admin' }, this.#objects);
      const counted = { buckets: buckets.length, objects: buckets.reduce((sum, { usage }) => sum + usage.objects, 0) };
      if (changes === this.#changes) this.#last = { ...counted, at };
      return counted;
    })();
    const over = () => {
      if (this.#counting === counting) this.#counting = undefined;
    };
    counting.then(over, over);
    this.#counting = counting;
    return counting;
  }
}
