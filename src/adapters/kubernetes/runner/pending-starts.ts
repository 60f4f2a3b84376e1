import { setTimeout as pause } from 'node:timers/promises';
import { isUnavailable } from '../../../ports/index.ts';
import { findRejection } from '../client/api-error.ts';

const RETRY_MS = 1_000;

/** Nobody reads it; without one, an error with its stack is made for each start. */
const OFF = 'it is called off';

interface PendingStart {
  readonly over: Promise<void>;
  readonly off: AbortController;
}

/** The starts of attempts that are under way: whoever asks for one of them again gets the same. */
export class PendingStarts {
  readonly #signal: AbortSignal;
  readonly #report: (problem: unknown) => void;
  readonly #underWay = new Map<string, PendingStart>();

  constructor(signal: AbortSignal, report: (problem: unknown) => void) {
    this.#signal = signal;
    this.#report = report;
  }

  /** `begin` is given what says that it is called off. */
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

  /** What is being tried may still succeed; it is not tried again. */
  cancel(name: string): void {
    this.#underWay.get(name)?.off.abort(OFF);
  }

  /** The same for all of them; who asks from now on begins anew. */
  cancelAll(): void {
    for (const { off } of this.#underWay.values()) off.abort(OFF);
    this.#underWay.clear();
  }

  /**
   * Again and again while the API is away, or a quota is used up: the job was given its place already, and there is no harm
   * in waiting. Not what the API server refuses as it is, nor what is called off.
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
