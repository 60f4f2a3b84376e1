import { setTimeout as pause } from 'node:timers/promises';
import { StoreError } from '../../errors.ts';

const RETRY_MS = 1_000;

/** The starts of attempts that are under way: whoever asks for one of them again gets the same. */
export class Starts {
  readonly #signal: AbortSignal;
  readonly #report: (problem: unknown) => void;
  readonly #underWay = new Map<string, Promise<void>>();

  constructor(signal: AbortSignal, report: (problem: unknown) => void) {
    this.#signal = signal;
    this.#report = report;
  }

  async once(name: string, begin: () => Promise<void>): Promise<void> {
    const starting = this.#underWay.get(name) ?? begin();
    this.#underWay.set(name, starting);
    try {
      await starting;
    } finally {
      this.#underWay.delete(name);
    }
  }

  /** Again and again while the API is away: the job was given its place already, and there is no harm in waiting. */
  async untilAvailable<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof StoreError) || error.code !== 'unavailable' || this.#signal.aborted) throw error;
        this.#report(error);
        await pause(RETRY_MS, undefined, { signal: this.#signal }).catch(() => undefined);
      }
    }
  }
}
