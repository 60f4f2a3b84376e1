import { setImmediate as turn } from 'node:timers/promises';
import type { Page, Version } from '../../lib/version.ts';
import type { Service } from '../../model/service/index.ts';
import type { Reservation, ServiceChange, ServiceQuery, ServiceRecord, ServiceStore } from '../../ports/index.ts';

/** A watch, and whether changes were withheld from it, so that it must get a `resync`. */
interface Watch {
  resyncPending: boolean;
  wake: () => void;
  stop: () => void;
}

/** How many older results of a query are kept, and how many records count as the newest. */
const OLD = 4;
const NEWEST = 3;

/** Number of queries whose older results are kept. */
const QUERIES = 200;

/**
 * A store with all faults that the port allows, for tests of its users: watches repeat, drop, delay and coalesce changes, and
 * lists are out of date. Writes and `get` are exact. A watch from which something was withheld gets a `resync` later.
 */
export function makeUnreliable(store: ServiceStore, random: () => number): ServiceStore {
  return new UnreliableServiceStore(store, random);
}

class UnreliableServiceStore implements ServiceStore {
  readonly #store: ServiceStore;
  readonly #random: () => number;
  readonly #watches = new Set<Watch>();
  readonly #answers = new Map<string, Page<ServiceRecord>[]>();
  #newest: string[] = [];

  constructor(store: ServiceStore, random: () => number) {
    this.#store = store;
    this.#random = random;
  }

  claimNamespace(owner: string, wanted: string): Promise<string> {
    return this.#store.claimNamespace(owner, wanted);
  }

  reserve(name: string, uid: string): Promise<Reservation | 'taken'> {
    return this.#store.reserve(name, uid);
  }

  release(reservation: Reservation): Promise<void> {
    return this.#store.release(reservation);
  }

  async create(reservation: Reservation, service: Service): Promise<ServiceRecord> {
    const record = await this.#store.create(reservation, service);
    this.#newest = [service.definition.name, ...this.#newest].slice(0, NEWEST);
    return record;
  }

  replace(service: Service, expected: Version): Promise<ServiceRecord> {
    return this.#store.replace(service, expected);
  }

  remove(name: string, expected: Version): Promise<void> {
    return this.#store.remove(name, expected);
  }

  get(name: string): Promise<ServiceRecord | undefined> {
    return this.#store.get(name);
  }

  getFresh(name: string): Promise<ServiceRecord | undefined> {
    return this.#store.getFresh(name);
  }

  async list(query: ServiceQuery): Promise<Page<ServiceRecord>> {
    const page = await this.#store.list(query);
    if (query.fresh) return page;
    const older = this.#remember(JSON.stringify(query), page);
    const chance = this.#random();
    if (chance < 0.5) return page;
    this.#requireResync();
    if (chance < 0.75) return older[Math.floor(this.#random() * older.length)] ?? page;
    return { ...page, items: page.items.filter(({ service }) => !this.#newest.includes(service.definition.name)) };
  }

  watch(signal: AbortSignal): AsyncIterable<ServiceChange> {
    const stopped = new AbortController();
    const changes = this.#store.watch(AbortSignal.any([signal, stopped.signal]));
    const watch: Watch = { resyncPending: false, wake: () => {}, stop: () => stopped.abort() };
    this.#watches.add(watch);
    return this.#withFaults(watch, changes[Symbol.asyncIterator]());
  }

  async *#withFaults(watch: Watch, changes: AsyncIterator<ServiceChange>): AsyncGenerator<ServiceChange, undefined> {
    const later = new Map<string, ServiceChange>();
    let next = changes.next();
    try {
      for (;;) {
        const waiting = watch.resyncPending || later.size > 0;
        const result = await Promise.race([next, waiting ? turn() : woken(watch)]);
        if (result?.done) return;
        if (result) {
          next = changes.next();
          yield* this.#injectFault(result.value, watch, later);
        } else yield* this.#deliverDelayed(watch, later);
      }
    } finally {
      this.#watches.delete(watch);
      watch.stop();
    }
  }

  /** Drops the change, delays it, repeats it later, or passes it on. */
  *#injectFault(change: ServiceChange, watch: Watch, later: Map<string, ServiceChange>): Iterable<ServiceChange> {
    const chance = this.#random();
    if (chance < 0.25) {
      watch.resyncPending = true;
      return;
    }
    if (chance < 0.75) later.set('name' in change ? change.name : '', change);
    if (chance >= 0.5) yield change;
  }

  /** Delivers one delayed change or a pending `resync` in random order, when nothing else happened for a turn. */
  *#deliverDelayed(watch: Watch, later: Map<string, ServiceChange>): Iterable<ServiceChange> {
    const kept = [...later];
    const [name, change] = kept[Math.floor(this.#random() * (kept.length + 1))] ?? [];
    if (name !== undefined && change) {
      later.delete(name);
      yield change;
    } else if (watch.resyncPending) {
      watch.resyncPending = false;
      yield { kind: 'resync' };
    }
  }

  #remember(query: string, page: Page<ServiceRecord>): Page<ServiceRecord>[] {
    const older = this.#answers.get(query) ?? [];
    this.#answers.delete(query);
    this.#answers.set(query, [page, ...older].slice(0, OLD));
    for (const oldest of this.#answers.keys()) {
      if (this.#answers.size <= QUERIES) break;
      this.#answers.delete(oldest);
    }
    return older;
  }

  #requireResync(): void {
    for (const watch of this.#watches) {
      watch.resyncPending = true;
      watch.wake();
    }
  }
}

function woken(watch: Watch): Promise<undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  watch.wake = () => resolve(undefined);
  return promise;
}
