import type { Service } from '../../service/index.ts';
import { cursorAfter, startOf } from '../cursor.ts';
import { StoreError } from '../errors.ts';
import {
  RESERVATION_LIFETIME,
  type Reservation,
  type ServiceChange,
  type ServiceQuery,
  type ServiceRecord,
  type ServiceStore,
} from '../service-store.ts';
import type { Page, Version } from '../version.ts';
import { Watchers } from '../watchers.ts';
import type { Database } from './database.ts';
import { newVersion } from './new-version.ts';
import { CACHE_LIMITS, type CacheLimits, RecordCache } from './record-cache.ts';
import { Reservations } from './reservations.ts';
import type { Seal } from './seal.ts';
import { type PreparedRecord, ServiceRows } from './service-rows.ts';

/** Records in a page unless the caller says otherwise. */
const PAGE = 500;

export interface LocalServiceStoreOptions {
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
  async home(_owner: string, wanted: string): Promise<string> {
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
      this.#watchers.tell({ kind: 'gone', name });
    });
  }

  async get(name: string): Promise<ServiceRecord | undefined> {
    return this.#read(name);
  }

  async look(name: string): Promise<ServiceRecord | undefined> {
    return this.#read(name);
  }

  async list({ anyOf, cursor, limit = PAGE }: ServiceQuery): Promise<Page<ServiceRecord>> {
    const start = startOf(cursor);
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
      this.#watchers.tell({ kind: 'changed', name, version: record.version });
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
