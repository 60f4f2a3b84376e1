import { setTimeout as pause } from 'node:timers/promises';
import { isUnavailable } from '../../../ports/index.ts';
import { findRejection } from '../client/api-error.ts';

const RETRY_MS = 1_000;

/** Nobody reads this reason. Without one, an error with a stack is created for each start. */
const OFF = 'it is called off';

interface PendingStart {
  readonly over: Promise<void>;
  readonly off: AbortController;
}

/** Starts of attempts in progress. A second start of the same attempt joins the first. */
export class PendingStarts {
  readonly #signal: AbortSignal;
  readonly #report: (problem: unknown) => void;
  readonly #underWay = new Map<string, PendingStart>();

  constructor(signal: AbortSignal, report: (problem: unknown) => void) {
    this.#signal = signal;
    this.#report = report;
  }

  /** `begin` gets a signal that aborts when the start is cancelled. */
  async once(name: string, begin: (off: AbortSignal) => Promise<void>): Promise<void> {
    const starting = this.#underWay.get(name) ?? this.#begin(begin);
    this.#underWay.set(name, starting);
    try {
      await starting.over;
    } finally {
      if (this.#underWay.get(name) === starting) this.#underWay.delete(name);
    }
  }

  #begin(begin: (off: AbortSignal) => Promise<void>): PendingStart {
    const off = new AbortController();
    return { over: begin(off.signal), off };
  }

  /** The current try may still succeed; it is not retried. */
  cancel(name: string): void {
    this.#underWay.get(name)?.off.abort(OFF);
  }

  /** Cancels all starts; later calls begin new ones. */
  cancelAll(): void {
    for (const { off } of this.#underWay.values()) off.abort(OFF);
    this.#underWay.clear();
  }

  /**
   * Retries while the API is unavailable or a quota is exhausted: the job already has its capacity, so waiting does no harm.
   * Final rejections and cancelled starts are not retried.
   */
  async retryWhileUnavailable<T>(work: () => Promise<T>, off?: AbortSignal): Promise<T> {
    const signal = off ? AbortSignal.any([this.#signal, off]) : this.#signal;
    for (;;) {
      try {
        return await work();
      } catch (error) {
        if (!isTemporary(error) || signal.aborted) throw error;
        this.#report(error);
        await pause(RETRY_MS, undefined, { signal }).catch(() => undefined);
        if (off?.aborted) throw error;
      }
    }
  }
}

const isTemporary = (error: unknown) => isUnavailable(error) && !findRejection(error)?.final;
