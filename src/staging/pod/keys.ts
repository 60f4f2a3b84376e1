import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { StagingError } from '../transfers/errors.ts';
import { ORDER_FILES, type PodLayout } from './layout.ts';
import { untilSeen } from './marks.ts';
import { type PodOrders, type PodStores, readStores } from './orders.ts';
import { isRefusal, KeysMissing } from './url-store.ts';

/**
 * How long renewed keys are waited for, if the orders do not say. Shorter: a job is lost over a manager that takes its time
 * to come back. Longer: one whose manager never comes back holds its place.
 */
const KEY_PATIENCE = 600_000;

const NONE_YET = 'there are no keys yet, and they are waited for';

interface UseOptions {
  /** Nobody waits any more when it aborts. */
  readonly signal: AbortSignal;
  /** Counts what was achieved: keys that were good for something are waited for as long again. */
  readonly progress?: () => number;
  readonly tell?: (notice: string) => void;
}

/** The keys of the pod, which somebody else renews. */
export class Keys {
  readonly #directory: string;
  readonly #file: string;
  readonly #patience: number;

  constructor(layout: Pick<PodLayout, 'orders'>, { keyPatience = KEY_PATIENCE }: Pick<PodOrders, 'keyPatience'>) {
    this.#directory = layout.orders;
    this.#file = join(layout.orders, ORDER_FILES.stores);
    this.#patience = keyPatience;
  }

  /** Works with the keys as they are now, and again with others if a store says that they have expired, or there are none. */
  async use<T>(work: (stores: PodStores) => Promise<T>, { signal, progress = () => 0, tell }: UseOptions): Promise<T> {
    let until = Date.now() + this.#patience;
    for (let achieved = progress(); ; ) {
      const text = await this.#read();
      try {
        return await work(readStores(text));
      } catch (error) {
        if (!isRefusal(error) || signal.aborted) throw error;
        if (progress() !== achieved) until = Date.now() + this.#patience;
        achieved = progress();
        tell?.(error instanceof KeysMissing ? NONE_YET : 'the keys have expired, and renewed ones are waited for');
        if (!(await this.#renewed(text, until - Date.now(), signal))) throw error;
      }
    }
  }

  /** What is made of the keys as they are at each call; made again only when they have changed. */
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
    return untilSeen(this.#directory, look, either).catch((error: unknown) => {
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
