import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StagingError } from '../transfers/errors.ts';
import { ORDER_FILES, type PodLayout } from './layout.ts';
import { pollUntil } from './marker-files.ts';
import { type PodOrders, type PodStores, readStores } from './orders.ts';
import { KeysMissing, needsNewKeys } from './url-store.ts';

/**
 * How long the pod waits for renewed keys, unless the orders say otherwise. With a shorter time, a job fails if its
 * manager takes long to restart. With a longer time, the pod of a manager that never comes back occupies its node
 * longer.
 */
const KEY_PATIENCE = 600_000;

const NONE_YET = 'there are no keys yet: waiting for them';

interface UseOptions {
  /** When it aborts, the wait ends. */
  readonly signal: AbortSignal;
  /** Counts successes. Each success restarts the time to wait for renewed keys. */
  readonly progress?: () => number;
  readonly notify?: (notice: string) => void;
}

/** The keys of the pod. The manager renews them by changing the pod's Secret. */
export class Keys {
  readonly #directory: string;
  readonly #file: string;
  readonly #patience: number;

  constructor(layout: Pick<PodLayout, 'orders'>, { keyPatience = KEY_PATIENCE }: Pick<PodOrders, 'keyPatience'>) {
    this.#directory = layout.orders;
    this.#file = join(layout.orders, ORDER_FILES.stores);
    this.#patience = keyPatience;
  }

  /**
   * Calls `work` with the current keys. If they are missing or a store rejects them as expired, waits for others and
   * repeats.
   */
  async use<T>(
    work: (stores: PodStores) => Promise<T>,
    { signal, progress = () => 0, notify }: UseOptions,
  ): Promise<T> {
    let until = Date.now() + this.#patience;
    for (let achieved = progress(); ; ) {
      const text = await this.#read();
      try {
        return await work(readStores(text));
      } catch (error) {
        if (!needsNewKeys(error) || signal.aborted) throw error;
        if (progress() !== achieved) until = Date.now() + this.#patience;
        achieved = progress();
        notify?.(error instanceof KeysMissing ? NONE_YET : 'the keys have expired: waiting for renewed ones');
        if (!(await this.#renewed(text, until - Date.now(), signal))) throw error;
      }
    }
  }

  /** Returns a function that caches `make` for the current keys, and calls it again when they change. */
  current<T>(make: (stores: PodStores) => Promise<T>): () => Promise<T> {
    let known: { readonly text: string; readonly made: Promise<T> } | undefined;
    return async () => {
      const text = await this.#read();
      if (known?.text !== text) known = { text, made: make(readStores(text)) };
      return known.made;
    };
  }

  async #renewed(text: string, patience: number, signal: AbortSignal): Promise<boolean> {
    const either = AbortSignal.any([signal, AbortSignal.timeout(Math.max(0, patience))]);
    const look = async () => ((await this.#read()) === text ? undefined : true);
    return pollUntil(this.#directory, look, either).catch((error: unknown) => {
      if (either.aborted) return false;
      throw error;
    });
  }

  async #read(): Promise<string> {
    try {
      return await readFile(this.#file, 'utf8');
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new StagingError('staging-unavailable', `the keys of this pod cannot be read: ${why}`, { cause });
    }
  }
}
