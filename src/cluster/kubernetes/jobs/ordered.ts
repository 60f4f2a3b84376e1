/** So many are put into their places one by one sooner than all are sorted. */
const FEW = 16;

/** Where something is in an order: by time, and where that is the same, by text. */
export interface Position {
  readonly at: number;
  readonly text: string;
}

/**
 * Things in an order, for lists that go on after the last one shown. Almost all come in their order, so that an array
 * to which they are added at the end is the quickest there is.
 */
export class Ordered<T> {
  #items: { readonly position: Position; readonly item: T }[] = [];
  readonly #positionOf: (item: T) => Position;

  constructor(positionOf: (item: T) => Position) {
    this.#positionOf = positionOf;
  }

  get size(): number {
    return this.#items.length;
  }

  first(): T | undefined {
    return this.#items[0]?.item;
  }

  /** The same for many, in whatever order: one by one, each would be moved for every other that comes before it. */
  addAll(items: readonly T[]): void {
    if (items.length < FEW) {
      for (const item of items) this.add(item);
      return;
    }
    const added = items.map((item) => ({ position: this.#positionOf(item), item }));
    // Of two at the same position the later one counts, and sorting keeps the order of equals.
    const all = [...this.#items, ...added].toSorted((a, b) => compare(a.position, b.position));
    this.#items = all.filter(({ position }, n) => {
      const next = all[n + 1];
      return !next || compare(position, next.position) !== 0;
    });
  }

  /** Replaces what is at the same position. */
  add(item: T): void {
    const position = this.#positionOf(item);
    const index = this.#find(position);
    this.#items.splice(index, this.#isAt(index, position) ? 1 : 0, { position, item });
  }

  delete(item: T): void {
    const position = this.#positionOf(item);
    const index = this.#find(position);
    if (this.#isAt(index, position)) this.#items.splice(index, 1);
  }

  /** The first ones above, the nearest first. */
  above(position: Position, limit: number): T[] {
    const index = this.#find(position);
    const start = this.#isAt(index, position) ? index + 1 : index;
    return this.#items.slice(start, start + limit).map(({ item }) => item);
  }

  /** The last ones below, the nearest first. */
  below(position: Position, limit: number): T[] {
    const index = this.#find(position);
    const some = this.#items.slice(Math.max(0, index - limit), index);
    return some.toReversed().map(({ item }) => item);
  }

  /** Where it is, or would be. */
  #find(position: Position): number {
    let low = 0;
    let high = this.#items.length;
    // What comes in its order goes behind the last.
    const last = this.#items.at(-1);
    if (!last || compare(last.position, position) < 0) return high;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const there = this.#items[middle];
      if (there && compare(there.position, position) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #isAt(index: number, position: Position): boolean {
    const there = this.#items[index];
    return there !== undefined && compare(there.position, position) === 0;
  }
}

export const LOWEST: Position = { at: -Number.MAX_VALUE, text: '' };
export const HIGHEST: Position = { at: Number.MAX_VALUE, text: '' };

function compare(a: Position, b: Position): number {
  if (a.at !== b.at) return a.at - b.at;
  return a.text < b.text ? -1 : Number(a.text > b.text);
}
