import type { JobKey } from '../cluster/index.ts';
import { roomName as nameOf } from './jobs.ts';
import type { Waiting } from './queue.ts';

/**
 * How long a job may be held back before that counts as no room. Less: jobs are offered to other clusters which this one is
 * just about to let in, since who decides takes some tenths of a second for each. More: a job waits here that could run
 * elsewhere.
 */
export const HELD_PATIENCE_MS = 2_000;

interface Held {
  readonly waiting: Waiting;
  readonly look: NodeJS.Timeout;
}

/** Jobs that the cluster does not let start yet, whatever room there is. They hold up nobody. */
export class HeldBack {
  readonly #jobs = new Map<string, Held>();
  readonly #isLong: (key: JobKey) => void;

  /** Told of each that is still here after a while. */
  constructor(isLong: (key: JobKey) => void) {
    this.#isLong = isLong;
  }

  has(key: JobKey): boolean {
    return this.#jobs.has(nameOf(key));
  }

  /** Again: nothing happens. */
  add(waiting: Waiting): void {
    const { key } = waiting;
    if (this.has(key)) return;
    const look = setTimeout(() => this.#isLong(key), HELD_PATIENCE_MS).unref();
    this.#jobs.set(nameOf(key), { waiting, look });
  }

  /** Of one that is not here: undefined. */
  take(key: JobKey): Waiting | undefined {
    const held = this.#jobs.get(nameOf(key));
    clearTimeout(held?.look);
    this.#jobs.delete(nameOf(key));
    return held?.waiting;
  }

  stop(): void {
    for (const { look } of this.#jobs.values()) clearTimeout(look);
    this.#jobs.clear();
  }
}
