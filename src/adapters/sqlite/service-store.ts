import type { Seal } from '../../lib/seal.ts';
import type { Page, Version } from '../../lib/version.ts';
import type { Service } from '../../model/service/index.ts';
import {
  cursorAfter,
  cursorPosition,
  RESERVATION_LIFETIME,
  type Reservation,
  type ServiceChange,
  type ServiceQuery,
  type ServiceRecord,
  type ServiceStore,
  StoreError,
  Watchers,
} from '../../ports/index.ts';
import { type Database, newVersion, type PreparedQuery } from './database.ts';
import { type PreparedRecord, ServiceRows } from './service-rows.ts';

/** Records in a page unless the caller says otherwise. */
const PAGE = 500;

interface LocalServiceStoreOptions {
  now: () => number;
  cache?: CacheLimits;
}

/** The services in SQLite. */
export class LocalServiceStore implements ServiceStore {
  readonly #database: Database;
  readonly #rows: ServiceRows;
  readonly #reservations: Reservations;
  readonly #cache: RecordCache;
  readonly #watchers = new Watchers();
  readonly #now: () => number;

  constructor(database: Database, seal: Seal, { now, cache = CACHE_LIMITS }: LocalServiceStoreOptions) {
    this.#database = database;
    this.#rows = new ServiceRows(database, seal);
    this.#reservations = new Reservations(database);
    this.#cache = new RecordCache(cache);
    this.#now = now;
  }

  /** Namespaces are names here: two users in one have nothing to do with each other. */
  async claimNamespace(_owner: string, wanted: string): Promise<string> {
    return wanted;
  }

  async reserve(name: string, uid: string): Promise<Reservation | 'taken'> {
    const reservation = Object.freeze({ name, uid });
    return this.#database.write(() => {
      if (this.#rows.identify(name)) return 'taken';
      const now = this.#now();
      const madeAt = this.#reservations.madeAt(name);
      // Either way, so that a clock that was set back does not keep a name taken.
      if (madeAt !== undefined && Math.abs(now - madeAt) < RESERVATION_LIFETIME) return 'taken';
      this.#reservations.put(reservation, now);
      return reservation;
    });
  }

  async release(reservation: Reservation): Promise<void> {
    await this.#database.write(() => this.#reservations.take(reservation));
  }

  async create(reservation: Reservation, service: Service): Promise<ServiceRecord> {
    const prepared = this.#rows.prepare(service, newVersion());
    return this.#database.write(() => {
      const fits = reservation.name === prepared.name && reservation.uid === service.uid;
      if (!fits || !this.#reservations.take(reservation)) {
        throw new StoreError(
          'conflict',
          `the name "${prepared.name}" is no longer reserved for this service: try again`,
        );
      }
      this.#rows.insert(prepared);
      return prepared.record;
    }, this.#written(prepared));
  }

  async replace(service: Service, expected: Version): Promise<ServiceRecord> {
    const prepared = this.#rows.prepare(service, newVersion());
    return this.#database.write(() => {
      const { uid, place } = this.#inVersion(prepared.name, expected);
      if (uid !== service.uid || place !== prepared.place) throw changed(prepared.name);
      this.#rows.update(prepared);
      return prepared.record;
    }, this.#written(prepared));
  }

  async remove(name: string, expected: Version): Promise<void> {
    const remove = () => {
      this.#inVersion(name, expected);
      this.#rows.delete(name);
    };
    await this.#database.write(remove, () => {
      this.#cache.remove(name);
      this.#watchers.notify({ kind: 'gone', name });
    });
  }

  async get(name: string): Promise<ServiceRecord | undefined> {
    return this.#read(name);
  }

  async getFresh(name: string): Promise<ServiceRecord | undefined> {
    return this.#read(name);
  }

  async list({ anyOf, cursor, limit = PAGE }: ServiceQuery): Promise<Page<ServiceRecord>> {
    const start = cursorPosition(cursor);
    const wanted = Math.max(1, limit);
    const found = anyOf ? this.#rows.listAnyOf(anyOf, start, wanted + 1) : this.#rows.list(start, wanted + 1);
    const shown = found.slice(0, wanted);
    const items = shown.map(({ name }) => this.#read(name)).filter((record) => record !== undefined);
    const last = shown.at(-1);
    return found.length > wanted && last ? { items, next: cursorAfter(last.place) } : { items };
  }

  watch(signal: AbortSignal): AsyncIterable<ServiceChange> {
    return this.#watchers.watch(signal);
  }

  /** Ends every watch. */
  close(): void {
    this.#watchers.end();
  }

  #read(name: string): ServiceRecord | undefined {
    const cached = this.#cache.get(name);
    if (cached) return cached;
    const loaded = this.#rows.load(name);
    if (loaded) this.#cache.put(name, loaded.record, loaded.characters);
    return loaded?.record;
  }

  #written({ name, record, definition }: PreparedRecord): () => void {
    return () => {
      this.#cache.put(name, record, definition.length);
      this.#watchers.notify({ kind: 'changed', name, version: record.version });
    };
  }

  #inVersion(name: string, expected: Version) {
    const identity = this.#rows.identify(name);
    if (!identity) throw new StoreError('absent', `there is no service "${name}"`);
    if (identity.version !== expected) throw changed(name);
    return identity;
  }
}

function changed(name: string): StoreError {
  return new StoreError('conflict', `the service "${name}" was changed by someone else meanwhile: read it again`);
}

export interface CacheLimits {
  readonly records: number;
  /** Length of the definitions as JSON: a script may be a megabyte. */
  readonly characters: number;
}

/**
 * More: memory, of which an idle manager should use little. Fewer: a read costs some 30 µs instead of 0.2. A
 * usual definition has 2,000 characters.
 */
const CACHE_LIMITS: CacheLimits = { records: 12_000, characters: 32_000_000 };

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

/** Names that were taken and have no service yet. */
class Reservations {
  readonly #find: PreparedQuery<{ made_at: number }>;
  readonly #put: PreparedQuery<never>;
  readonly #take: PreparedQuery<never>;

  constructor(database: Database) {
    this.#find = database.query('SELECT made_at FROM reservations WHERE name = ?');
    this.#put = database.query('INSERT OR REPLACE INTO reservations (name, uid, made_at) VALUES (?, ?, ?)');
    this.#take = database.query('DELETE FROM reservations WHERE name = ? AND uid = ?');
  }

  madeAt(name: string): number | undefined {
    return this.#find.get(name)?.made_at;
  }

  put({ name, uid }: Reservation, now: number): void {
    this.#put.run(name, uid, now);
  }

  /** Removes it; false when it is no longer held. */
  take({ name, uid }: Reservation): boolean {
    return this.#take.run(name, uid).changes === 1;
  }
}
