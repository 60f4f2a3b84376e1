import type { Clock } from './clock.ts';

/** Time that passes when the test says so. */
export class HandClock implements Clock {
  #now: number;
  #calls: { readonly at: number; readonly call: () => void }[] = [];

  constructor(now = Date.UTC(2026, 0, 1)) {
    this.#now = now;
  }

  now = (): number => this.#now;

  at(time: number, call: () => void): () => void {
    const entry = { at: time, call };
    this.#calls.push(entry);
    return () => {
      this.#calls = this.#calls.filter((each) => each !== entry);
    };
  }

  /** Calls everybody whose time comes, in order; what they do takes no time. */
  pass(ms: number): void {
    const end = this.#now + ms;
    for (;;) {
      const next = this.#calls.filter(({ at }) => at <= end).toSorted((a, b) => a.at - b.at)[0];
      if (!next) break;
      this.#calls = this.#calls.filter((each) => each !== next);
      this.#now = Math.max(this.#now, next.at);
      next.call();
    }
    this.#now = end;
  }
}
