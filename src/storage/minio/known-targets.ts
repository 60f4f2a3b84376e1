/** What the store calls the places that events are sent to, by our names for them. */
export type TargetNames = ReadonlyMap<string, string>;

/** Where events are sent to, as far as that is known: a store can be started anew with other places, or without any. */
export class KnownTargets {
  readonly #ask: (before: TargetNames) => Promise<TargetNames>;
  readonly #believedMs: number;
  #known: { readonly names: TargetNames; readonly at: number } | undefined;
  #asking: Promise<TargetNames> | undefined;

  /** `ask` is told what was there before: that need not be tried again. */
  constructor(ask: (before: TargetNames) => Promise<TargetNames>, believedMs: number) {
    this.#ask = ask;
    this.#believedMs = believedMs;
  }

  /** As they were when they were last asked for, which is not long ago. */
  async found(): Promise<TargetNames> {
    const known = this.#known;
    return known && performance.now() - known.at < this.#believedMs ? known.names : this.now();
  }

  /** As they are, whatever was known. Whoever asks meanwhile gets the same answer. */
  now(): Promise<TargetNames> {
    this.#asking ??= this.#ask(this.#known?.names ?? new Map())
      .then((names) => {
        this.#known = { names, at: performance.now() };
        return names;
      })
      .finally(() => {
        this.#asking = undefined;
      });
    return this.#asking;
  }

  /** As they are, after the store has refused what was known of them. */
  async anew(): Promise<TargetNames> {
    await this.#asking?.catch(() => undefined);
    this.#known = undefined;
    return this.now();
  }
}
