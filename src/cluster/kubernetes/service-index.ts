import { termsOf } from '../index-terms.ts';
import type { IndexTerm, ServiceRecord } from '../service-store.ts';
import { SortedSet } from './sorted-set.ts';

/** Records by place (`<namespace>/<name>`) and by term, kept up with every change: a look-up never scans. */
export class ServiceIndex {
  readonly #records = new Map<string, { record: ServiceRecord; terms: readonly IndexTerm[] }>();
  readonly #places = new SortedSet();
  readonly #byTerm = new Map<IndexTerm, SortedSet>();

  put(place: string, record: ServiceRecord): void {
    this.delete(place);
    const terms = termsOf(record.service);
    this.#records.set(place, { record, terms });
    this.#places.add(place);
    for (const term of terms) {
      const places = this.#byTerm.get(term) ?? new SortedSet();
      this.#byTerm.set(term, places);
      places.add(place);
    }
  }

  delete(place: string): void {
    const entry = this.#records.get(place);
    if (!entry) return;
    this.#records.delete(place);
    this.#places.delete(place);
    for (const term of entry.terms) {
      const places = this.#byTerm.get(term);
      places?.delete(place);
      if (places?.size === 0) this.#byTerm.delete(term);
    }
  }

  /** The first records from that place on, of those under any of the terms. */
  list(anyOf: readonly IndexTerm[] | undefined, start: string, limit: number): [place: string, ServiceRecord][] {
    return this.#placesFrom(anyOf, start, limit).flatMap((place) => {
      const entry = this.#records.get(place);
      return entry ? [[place, entry.record] as [string, ServiceRecord]] : [];
    });
  }

  /** The first `limit` of all terms together are among the first `limit` of each. */
  #placesFrom(anyOf: readonly IndexTerm[] | undefined, start: string, limit: number): string[] {
    if (!anyOf) return this.#places.from(start, limit);
    const pages = anyOf.map((term) => this.#byTerm.get(term)?.from(start, limit) ?? []);
    return [...new Set(pages.flat())].toSorted(byCodeUnit).slice(0, limit);
  }
}

const byCodeUnit = (a: string, b: string) => (a < b ? -1 : Number(a > b));
