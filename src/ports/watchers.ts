import type { ServiceChange } from './service-store.ts';

/**
 * Names a slow consumer may be behind with. Beyond them it is told to list again, which is cheaper for both by then,
 * and keeps one that never comes back from costing memory.
 */
export const WATCH_BACKLOG = 1_000;

/** Tells everyone who watches what has changed. */
export class Watchers {
  readonly #all = new Set<Watcher>();

  watch(signal: AbortSignal): AsyncIterable<ServiceChange> {
    const watcher = new Watcher();
    const end = () => {
      this.#all.delete(watcher);
      watcher.end();
    };
    if (signal.aborted) end();
    else {
      // From now on, not from the first read on: nothing may slip through in between.
      this.#all.add(watcher);
      signal.addEventListener('abort', end, { once: true });
    }
    return watcher.changes(() => {
      signal.removeEventListener('abort', end);
      end();
    });
  }

  notify(change: Exclude<ServiceChange, { kind: 'resync' }>): void {
    for (const watcher of this.#all) watcher.notify(change);
  }

  end(): void {
    for (const watcher of this.#all) watcher.end();
    this.#all.clear();
  }
}

class Watcher {
  /** By name, so that what changed ten times is read once. */
  readonly #pending = new Map<string, ServiceChange>();
  #overflown = false;
  #ended = false;
  #wake: (() => void) | undefined;

  notify(change: Exclude<ServiceChange, { kind: 'resync' }>): void {
    if (this.#overflown) return;
    this.#pending.set(change.name, change);
    if (this.#pending.size > WATCH_BACKLOG) {
      this.#pending.clear();
      this.#overflown = true;
    }
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *changes(done: () => void): AsyncGenerator<ServiceChange, undefined> {
    try {
      while (!this.#ended) {
        const change = this.#take();
        if (change) yield change;
        else await this.#woken();
      }
    } finally {
      done();
    }
  }

  #take(): ServiceChange | undefined {
    if (this.#overflown) {
      this.#overflown = false;
      return { kind: 'resync' };
    }
    for (const [name, change] of this.#pending) {
      this.#pending.delete(name);
      return change;
    }
    return undefined;
  }

  #woken(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    return promise;
  }
}
