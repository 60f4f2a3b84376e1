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
  /** A heap, earliest first. Replaced and dropped entries stay in it until they reach the top. */
  readonly #heap: Entry<T>[] = [];
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
    push(this.#heap, entry);
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
      pop(this.#heap);
      this.#entries.delete(first.name);
      this.#due(first.item, first.name);
      if (this.#closed) return;
    }
  }

  #first(): Entry<T> | undefined {
    for (;;) {
      const [first] = this.#heap;
      if (!first || this.#entries.get(first.name) === first) return first;
      pop(this.#heap);
    }
  }
}

type Timed = { readonly at: number };

function push<E extends Timed>(heap: E[], entry: E): void {
  let index = heap.push(entry) - 1;
  while (index > 0) {
    const above = (index - 1) >> 1;
    if (!swapIfLater(heap, above, index)) return;
    index = above;
  }
}

function pop(heap: Timed[]): void {
  const last = heap.pop();
  if (!last || heap.length === 0) return;
  heap[0] = last;
  for (let index = 0; ; ) {
    const left = 2 * index + 1;
    const [a, b] = [heap[left], heap[left + 1]];
    const below = a && b && b.at < a.at ? left + 1 : left;
    if (!swapIfLater(heap, index, below)) return;
    index = below;
  }
}

function swapIfLater(heap: Timed[], above: number, below: number): boolean {
  const [upper, lower] = [heap[above], heap[below]];
  if (!upper || !lower || upper.at <= lower.at) return false;
  heap[above] = lower;
  heap[below] = upper;
  return true;
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
