/** A priority queue: the first item is one before which no other comes. */
export class Heap<T> {
  readonly #isBefore: (a: T, b: T) => boolean;
  readonly #items: T[] = [];

  constructor(isBefore: (a: T, b: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get first(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    const items = this.#items;
    let index = items.push(item) - 1;
    while (index > 0) {
      const above = (index - 1) >> 1;
      if (!this.#swapIfLater(above, index)) return;
      index = above;
    }
  }

  /** Removes and returns the first item. */
  pop(): T | undefined {
    const items = this.#items;
    const [first] = items;
    const last = items.pop();
    if (last === undefined || items.length === 0) return first;
    items[0] = last;
    for (let index = 0; ; ) {
      const left = 2 * index + 1;
      const [a, b] = [items[left], items[left + 1]];
      const below = a !== undefined && b !== undefined && this.#isBefore(b, a) ? left + 1 : left;
      if (!this.#swapIfLater(index, below)) return first;
      index = below;
    }
  }

  #swapIfLater(above: number, below: number): boolean {
    const [upper, lower] = [this.#items[above], this.#items[below]];
    if (upper === undefined || lower === undefined || !this.#isBefore(lower, upper)) return false;
    this.#items[above] = lower;
    this.#items[below] = upper;
    return true;
  }
}
