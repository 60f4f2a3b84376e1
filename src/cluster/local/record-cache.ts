import type { ServiceRecord } from '../service-store.ts';

export interface CacheLimits {
  readonly records: number;
  /** Length of the definitions as JSON: a script may be a megabyte. */
  readonly characters: number;
}

/**
 * More: memory, of which an idle manager should use little. Fewer: a read costs some 30 µs instead of 0.2. A
 * usual definition has 2,000 characters.
 */
export const CACHE_LIMITS: CacheLimits = { records: 12_000, characters: 32_000_000 };

interface Entry {
  readonly record: ServiceRecord;
  readonly characters: number;
}

/**
 * The records read last. Exact, because this process alone writes: a write replaces or removes what is here.
 *
 * In two generations: what is read moves to the young one, and when that has taken half of the room the old one is
 * forgotten. A list in order of use would forget more precisely, but to move a name that is read all the time to the
 * end of a map takes V8 longer (15 µs in a map of 3,000) than to read it.
 */
export class RecordCache {
  readonly #limits: CacheLimits;
  #young = new Map<string, Entry>();
  #old = new Map<string, Entry>();
  /** Of the young. */
  #characters = 0;

  constructor(limits: CacheLimits) {
    this.#limits = limits;
  }

  get(name: string): ServiceRecord | undefined {
    const young = this.#young.get(name);
    if (young) return young.record;
    const old = this.#old.get(name);
    if (old) this.#add(name, old);
    return old?.record;
  }

  put(name: string, record: ServiceRecord, characters: number): void {
    this.remove(name);
    this.#add(name, { record, characters });
  }

  remove(name: string): void {
    this.#characters -= this.#young.get(name)?.characters ?? 0;
    this.#young.delete(name);
    this.#old.delete(name);
  }

  #add(name: string, entry: Entry): void {
    const full =
      (this.#young.size + 1) * 2 > this.#limits.records ||
      (this.#characters + entry.characters) * 2 > this.#limits.characters;
    if (full) {
      this.#old = this.#young;
      this.#young = new Map();
      this.#characters = 0;
    }
    this.#young.set(name, entry);
    this.#characters += entry.characters;
  }
}
