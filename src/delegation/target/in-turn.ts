/** Does what concerns one name one after the other. */
export class InTurn {
  readonly #last = new Map<string, Promise<unknown>>();

  async take<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name);
    const mine = before ? before.then(work, work) : work();
    this.#last.set(name, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(name) === mine) this.#last.delete(name);
    }
  }
}
