import type { ObjectStore } from '../ports/index.ts';
import { listBuckets } from './buckets.ts';

export interface Counted {
  readonly buckets: number;
  readonly objects: number;
}

export interface StoreCountOptions {
  /** Milliseconds for which a count is good. 0: the store is asked each time. */
  readonly goodMs: number;
  /** By a clock that never goes back. */
  readonly elapsed?: () => number;
}

/** How much older than good a count may be for those who get it while the next one is made. */
const OLDER = 2;

/**
 * How many buckets and objects there are. A store on its own takes several requests for each bucket, and whoever shows the
 * status asks for it all the time: so the store is counted at most once in a while, beside those who ask. Only who asks after
 * a longer pause, or after a change that was made here, waits for a count.
 */
export class StoreCount {
  readonly #objects: ObjectStore;
  readonly #goodMs: number;
  readonly #elapsed: () => number;
  #last: (Counted & { readonly at: number }) | undefined;
  #counting: Promise<Counted> | undefined;
  /** Grows with each change: what was counted before it does not count. */
  #changes = 0;

  constructor(objects: ObjectStore, { goodMs, elapsed = () => performance.now() }: StoreCountOptions) {
    this.#objects = objects;
    this.#goodMs = goodMs;
    this.#elapsed = elapsed;
  }

  /** Never older than twice as long as a count is good. */
  async read(): Promise<Counted> {
    const last = this.#last;
    const age = last ? this.#elapsed() - last.at : Number.POSITIVE_INFINITY;
    if (last && age < this.#goodMs) return last;
    const counting = this.#count();
    if (!last || age >= this.#goodMs * OLDER) return counting;
    // Whoever comes when this one is too old hears why there is no other.
    counting.catch(() => undefined);
    return last;
  }

  /** Buckets were made or removed here: whoever asks next is told of it. */
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
