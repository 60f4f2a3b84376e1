import { deepFreeze } from '../../lib/freeze.ts';
import type { Seal } from '../../lib/seal.ts';
import { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import type { Definition, FederationRole, Service } from '../../model/service/index.ts';
import { type IndexTerm, indexTermsFor, type ServiceRecord } from '../../ports/index.ts';
import type { Database, PreparedQuery } from './database.ts';

interface Row {
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
export interface RecordIdentity {
  readonly uid: string;
  readonly version: Version;
  readonly place: string;
}

export interface ListedServiceRow {
  readonly place: string;
  readonly name: string;
}

/** A record ready to be written, and what reading it will give. */
export interface PreparedRecord {
  readonly name: string;
  readonly place: string;
  readonly definition: string;
  readonly federation: string | null;
  readonly token: Uint8Array;
  readonly terms: readonly IndexTerm[];
  readonly record: ServiceRecord;
}

/** Services and their index terms as rows. Knows nothing of who may write when. */
export class ServiceRows {
  readonly #seal: Seal;
  readonly #identity: PreparedQuery<RecordIdentity>;
  readonly #load: PreparedQuery<Row>;
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

  /** Made before the transaction: writing JSON and sealing take longer than the rows do. */
  prepare(service: Service, version: Version): PreparedRecord {
    const { uid, owner, ownerName, namespace } = service;
    const { name } = service.definition;
    const definition = JSON.stringify(service.definition);
    const federation = service.federation ? JSON.stringify(service.federation) : null;
    const known = { uid, owner, ownerName, namespace };
    const record = frozenRecord(known, { definition, federation }, service.token.reveal(), version);
    return {
      name,
      place: `${namespace}/${name}`,
      definition,
      federation,
      token: this.#seal.seal(service.token.reveal(), tokenPlace(name, uid)),
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

  /** Its terms go with it. */
  delete(name: string): void {
    this.#delete.run(name);
  }

  load(name: string): { record: ServiceRecord; characters: number } | undefined {
    const row = this.#load.get(name);
    if (!row) return undefined;
    const { uid, owner, owner_name: ownerName, namespace, definition, federation } = row;
    const token = this.#seal.open(row.token, tokenPlace(name, uid));
    const known = { uid, owner, ownerName, namespace };
    const record = frozenRecord(known, { definition, federation }, token, row.version);
    return { record, characters: definition.length };
  }

  /** The first places from `start` on. */
  list(start: string, limit: number): ListedServiceRow[] {
    return this.#listAll.all(start, limit);
  }

  /**
   * The same for services under any of the terms. The first `limit` of all of them are among the first `limit` of each,
   * and sorting a few sorted lists is a merge, so a page costs what it shows and not what matches.
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

/** As SQLite compares: by the bytes of UTF-8, which is by code points and not by JavaScript's code units. */
function byPlace({ place: a }: ListedServiceRow, { place: b }: ListedServiceRow): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const difference = rank(a.charCodeAt(i)) - rank(b.charCodeAt(i));
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Surrogates stand for what comes after everything else. */
const rank = (unit: number) => (unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit);

const tokenPlace = (name: string, uid: string) => ['service', name, uid, 'token'] as const;

/** Always out of the JSON that is stored, so that a record is the same whether it was just written or read. */
function frozenRecord(
  known: Omit<Service, 'definition' | 'token' | 'federation'>,
  { definition, federation }: Pick<Row, 'definition' | 'federation'>,
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
