import type { ServiceChange } from './service-store.ts';

/**
 * Changes that are queued for a slow consumer. Beyond this number it gets `resync` instead: listing again is cheaper by then,
 * and a consumer that never reads again does not use up memory.
 */
export const WATCH_BACKLOG = 1_000;

/** Distributes changes of services to all watches. */
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
      // Subscribe now, not at the first read, so that no change in between is missed.
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
  /** By name, so that a service that changed ten times is read once. */
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
