import { deepFreeze } from '../../lib/json.ts';
import { type Seal, Secret } from '../../lib/secret.ts';
import type { Page, Version } from '../../lib/version.ts';
import type { Definition, FederationRole, Service } from '../../model/service/index.ts';
import {
  cursorAfter,
  cursorPosition,
  type IndexTerm,
  indexTermsFor,
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

/** The default size of a page. */
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

  /** Namespaces are only names here: users of the same namespace share nothing. */
  async claimNamespace(_owner: string, wanted: string): Promise<string> {
    return wanted;
  }

  async reserve(name: string, uid: string): Promise<Reservation | 'taken'> {
    const reservation = Object.freeze({ name, uid });
    return this.#database.write(() => {
      if (this.#rows.identify(name)) return 'taken';
      const now = this.#now();
      const madeAt = this.#reservations.madeAt(name);
      // The absolute difference, so that a clock that was set back does not keep a name reserved.
      if (madeAt !== undefined && Math.abs(now - madeAt) < RESERVATION_LIFETIME) return 'taken';
      this.#reservations.put(reservation, now);
      return reservation;
    });
  }

  async release(reservation: Reservation): Promise<void> {
    await this.#database.writeReserved(() => this.#reservations.remove(reservation));
  }

  async create(reservation: Reservation, service: Service): Promise<ServiceRecord> {
    const prepared = this.#rows.prepare(service, newVersion());
    return this.#database.write(() => {
      const fits = reservation.name === prepared.name && reservation.uid === service.uid;
      if (!fits || !this.#reservations.remove(reservation)) {
        throw new StoreError(
          'conflict',
          `the name "${prepared.name}" is no longer reserved for this service: try again`,
        );
      }
      this.#rows.insert(prepared);
      return prepared.record;
    }, this.#onWritten(prepared));
  }

  async replace(service: Service, expected: Version): Promise<ServiceRecord> {
    const prepared = this.#rows.prepare(service, newVersion());
    return this.#database.write(() => {
      const { uid, place } = this.#expectVersion(prepared.name, expected);
      if (uid !== service.uid || place !== prepared.place) throw changedMeanwhile(prepared.name);
      this.#rows.update(prepared);
      return prepared.record;
    }, this.#onWritten(prepared));
  }

  async remove(name: string, expected: Version): Promise<void> {
    const remove = () => {
      this.#expectVersion(name, expected);
      this.#rows.delete(name);
    };
    await this.#database.writeReserved(remove, () => {
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

  #onWritten({ name, record, definition }: PreparedRecord): () => void {
    return () => {
      this.#cache.put(name, record, definition.length);
      this.#watchers.notify({ kind: 'changed', name, version: record.version });
    };
  }

  #expectVersion(name: string, expected: Version) {
    const identity = this.#rows.identify(name);
    if (!identity) throw new StoreError('absent', `service "${name}" not found`);
    if (identity.version !== expected) throw changedMeanwhile(name);
    return identity;
  }
}

function changedMeanwhile(name: string): StoreError {
  return new StoreError('conflict', `the service "${name}" was changed meanwhile: read it again`);
}

export interface CacheLimits {
  readonly records: number;
  /** Total length of the definitions as JSON: a script may have a megabyte. */
  readonly characters: number;
}

/**
 * Larger limits take memory, of which an idle manager should use little. A read that misses the cache takes 30 µs instead of
 * 0.2 µs. A typical definition has 2,000 characters.
 */
const CACHE_LIMITS: CacheLimits = { records: 12_000, characters: 32_000_000 };

interface Entry {
  readonly record: ServiceRecord;
  readonly characters: number;
}

/**
 * Caches recently read records. Always exact, because this process alone writes, and each write updates the cache.
 *
 * It has two generations: a record that is read moves to the young one, and when that reaches half of the limits, the old
 * one is dropped. An LRU list would evict more precisely, but moving a frequently read name to the end of a map takes V8
 * longer (15 µs in a map of 3,000) than the read itself.
 */
export class RecordCache {
  readonly #limits: CacheLimits;
  #young = new Map<string, Entry>();
  #old = new Map<string, Entry>();
  /** Characters in the young generation. */
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

/** Reserved names that have no service yet. */
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

  /** Returns false if the name is no longer reserved. */
  remove({ name, uid }: Reservation): boolean {
    return this.#take.run(name, uid).changes === 1;
  }
}

interface ServiceRow {
  uid: string;
  version: Version;
  owner: string;
  owner_name: string;
  namespace: string;
  token: Uint8Array;
  definition: string;
  federation: string | null;
}

/** What a compare-and-swap compares. */
interface RecordIdentity {
  readonly uid: string;
  readonly version: Version;
  readonly place: string;
}

interface ListedServiceRow {
  readonly place: string;
  readonly name: string;
}

/** A record ready to be written, and the one that a read will return. */
interface PreparedRecord {
  readonly name: string;
  readonly place: string;
  readonly definition: string;
  readonly federation: string | null;
  readonly token: Uint8Array;
  readonly terms: readonly IndexTerm[];
  readonly record: ServiceRecord;
}

/** Reads and writes the rows of services and their index terms. The rules about writing are in the store above. */
class ServiceRows {
  readonly #seal: Seal;
  readonly #identity: PreparedQuery<RecordIdentity>;
  readonly #load: PreparedQuery<ServiceRow>;
  readonly #insert: PreparedQuery<never>;
  readonly #update: PreparedQuery<never>;
  readonly #delete: PreparedQuery<never>;
  readonly #addTerm: PreparedQuery<never>;
  readonly #dropTerms: PreparedQuery<never>;
  readonly #listAll: PreparedQuery<ListedServiceRow>;
  readonly #listTerm: PreparedQuery<ListedServiceRow>;

  constructor(database: Database, seal: Seal) {
    this.#seal = seal;
    this.#identity = database.query('SELECT uid, version, place FROM services WHERE name = ?');
    this.#load = database.query(
      'SELECT uid, version, owner, owner_name, namespace, token, definition, federation FROM services WHERE name = ?',
    );
    this.#insert = database.query(
      `INSERT INTO services (name, place, uid, version, owner, owner_name, namespace, token, definition, federation)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#update = database.query(
      'UPDATE services SET version = ?, owner = ?, owner_name = ?, token = ?, definition = ?, federation = ? WHERE name = ?',
    );
    this.#delete = database.query('DELETE FROM services WHERE name = ?');
    this.#addTerm = database.query('INSERT INTO service_terms (term, place, name) VALUES (?, ?, ?)');
    this.#dropTerms = database.query('DELETE FROM service_terms WHERE name = ?');
    this.#listAll = database.query(LIST_ALL);
    this.#listTerm = database.query(LIST_TERM);
  }

  /** Called before the transaction: JSON and encryption take longer than writing the rows. */
  prepare(service: Service, version: Version): PreparedRecord {
    const { uid, owner, ownerName, namespace } = service;
    const { name } = service.definition;
    const definition = JSON.stringify(service.definition);
    const federation = service.federation ? JSON.stringify(service.federation) : null;
    const known = { uid, owner, ownerName, namespace };
    const record = toServiceRecord(known, { definition, federation }, service.token.reveal(), version);
    return {
      name,
      place: `${namespace}/${name}`,
      definition,
      federation,
      token: this.#seal.seal(service.token.reveal(), tokenSealingContext(name, uid)),
      terms: indexTermsFor(record.service),
      record,
    };
  }

  identify(name: string): RecordIdentity | undefined {
    return this.#identity.get(name);
  }

  insert({ name, place, definition, federation, token, terms, record }: PreparedRecord): void {
    const { uid, owner, ownerName, namespace } = record.service;
    this.#insert.run(name, place, uid, record.version, owner, ownerName, namespace, token, definition, federation);
    for (const term of terms) this.#addTerm.run(term, place, name);
  }

  update({ name, place, definition, federation, token, terms, record }: PreparedRecord): void {
    const { owner, ownerName } = record.service;
    this.#update.run(record.version, owner, ownerName, token, definition, federation, name);
    this.#dropTerms.run(name);
    for (const term of terms) this.#addTerm.run(term, place, name);
  }

  /** Deletes the index terms too (foreign key). */
  delete(name: string): void {
    this.#delete.run(name);
  }

  load(name: string): { record: ServiceRecord; characters: number } | undefined {
    const row = this.#load.get(name);
    if (!row) return undefined;
    const { uid, owner, owner_name: ownerName, namespace, definition, federation } = row;
    const token = this.#seal.open(row.token, tokenSealingContext(name, uid));
    const known = { uid, owner, ownerName, namespace };
    const record = toServiceRecord(known, { definition, federation }, token, row.version);
    return { record, characters: definition.length };
  }

  /** The first services from `start` on. */
  list(start: string, limit: number): ListedServiceRow[] {
    return this.#listAll.all(start, limit);
  }

  /**
   * The same for services with any of the terms. The first `limit` of all are among the first `limit` of each term, and
   * sorting a few sorted lists is a merge. So the cost depends on the size of the page, not on the number of matches.
   */
  listAnyOf(terms: readonly IndexTerm[], start: string, limit: number): ListedServiceRow[] {
    const pages = [...new Set(terms)]
      .map((term) => this.#listTerm.all(term, start, limit))
      .filter((page) => page.length > 0);
    if (pages.length <= 1) return pages[0] ?? [];
    const merged = new Map(pages.flat().map((listed) => [listed.place, listed]));
    return [...merged.values()].toSorted(byPlace).slice(0, limit);
  }
}

export const LIST_ALL = 'SELECT place, name FROM services WHERE place >= ? ORDER BY place LIMIT ?';
export const LIST_TERM = 'SELECT place, name FROM service_terms WHERE term = ? AND place >= ? ORDER BY place LIMIT ?';

/** In the order of SQLite: by the bytes of UTF-8, that is by code points and not by JavaScript's code units. */
function byPlace({ place: a }: ListedServiceRow, { place: b }: ListedServiceRow): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const difference = codePointRank(a.charCodeAt(i)) - codePointRank(b.charCodeAt(i));
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Surrogates stand for code points above all others. */
const codePointRank = (unit: number) => (unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit);

const tokenSealingContext = (name: string, uid: string) => ['service', name, uid, 'token'] as const;

/** Always built from the stored JSON, so that a record is the same after a write and after a read. */
function toServiceRecord(
  known: Omit<Service, 'definition' | 'token' | 'federation'>,
  { definition, federation }: Pick<ServiceRow, 'definition' | 'federation'>,
  token: string,
  version: Version,
): ServiceRecord {
  const parsed: Definition = JSON.parse(definition);
  const service: Service = {
    ...known,
    definition: deepFreeze(parsed),
    token: frozenSecret(token),
    ...(federation !== null && { federation: deepFreeze(JSON.parse(federation) as FederationRole) }),
  };
  return Object.freeze({ service: Object.freeze(service), version });
}

function frozenSecret(value: string): Secret {
  const secret = new Secret(value);
  Object.freeze(secret);
  return secret;
}
