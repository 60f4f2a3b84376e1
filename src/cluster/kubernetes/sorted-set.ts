/** Texts in order, for lists that go on after the last one shown. They are ASCII, so this is the order of bytes too. */
export class SortedSet {
  readonly #items: string[] = [];

  get size(): number {
    return this.#items.length;
  }

  add(item: string): void {
    const index = this.#find(item);
    if (this.#items[index] !== item) this.#items.splice(index, 0, item);
  }

  delete(item: string): void {
    const index = this.#find(item);
    if (this.#items[index] === item) this.#items.splice(index, 1);
  }

  /** The first ones that are not below `start`. */
  from(start: string, limit: number): string[] {
    const index = this.#find(start);
    return this.#items.slice(index, index + limit);
  }

  /** Where it is, or would be. */
  #find(item: string): number {
    let low = 0;
    let high = this.#items.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#items[middle] ?? '') < item) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
