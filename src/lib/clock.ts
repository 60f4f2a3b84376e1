import { Heap } from './heap.ts';

interface Entry<T> {
  readonly name: string;
  readonly at: number;
  readonly item: T;
}

/** Runs tasks at given times, each under a name, with one timer for all of them. */
export class TimerQueue<T> {
  readonly #clock: Clock;
  readonly #due: (item: T, name: string) => void;
  readonly #entries = new Map<string, Entry<T>>();
  /** Earliest first. Replaced and dropped entries stay in it until they are the first. */
  readonly #heap = new Heap<Entry<T>>((a, b) => a.at < b.at);
  #undo: (() => void) | undefined;
  #wakesAt = Infinity;
  #closed = false;

  constructor(clock: Clock, due: (item: T, name: string) => void) {
    this.#clock = clock;
    this.#due = due;
  }

  get size(): number {
    return this.#entries.size;
  }

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  /** Replaces the entry with the same name. */
  add(name: string, at: number, item: T): void {
    if (this.#closed) return;
    const entry = { name, at, item };
    this.#entries.set(name, entry);
    this.#heap.push(entry);
    if (at < this.#wakesAt) this.#wakeAt(at);
  }

  drop(name: string): void {
    this.#entries.delete(name);
  }

  close(): void {
    this.#closed = true;
    this.#undo?.();
    this.#entries.clear();
  }

  #wakeAt(at: number): void {
    this.#undo?.();
    this.#wakesAt = at;
    this.#undo = this.#clock.at(at, () => this.#wake());
  }

  #wake(): void {
    this.#wakesAt = Infinity;
    const now = this.#clock.now();
    for (let first = this.#first(); first; first = this.#first()) {
      if (first.at > now) return this.#wakeAt(first.at);
      this.#heap.pop();
      this.#entries.delete(first.name);
      this.#due(first.item, first.name);
      if (this.#closed) return;
    }
  }

  #first(): Entry<T> | undefined {
    for (;;) {
      const { first } = this.#heap;
      if (!first || this.#entries.get(first.name) === first) return first;
      this.#heap.pop();
    }
  }
}

/** The current time and timers. Tests use a clock that is set by hand. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Calls `call` once, at that time or soon after. Returns the function that cancels it. */
  at(time: number, call: () => void): () => void;
}

/** The longest delay of a Node timer; the queue checks the time again when it is called early. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: Date.now,
  at(time, call) {
    const timer = setTimeout(call, Math.min(Math.max(0, time - Date.now()), LONGEST_TIMER));
    timer.unref();
    return () => clearTimeout(timer);
  },
};
