import { type Seal, type SealedPlace, Secret } from '../../lib/secret.ts';
import type { Cursor, Page, Version } from '../../lib/version.ts';
import {
  cursorAfter,
  cursorPosition,
  type SecretKind,
  type SecretRecord,
  type SecretStore,
  type SecretValues,
  StoreError,
} from '../../ports/index.ts';
import { type Database, newVersion, type PreparedQuery } from './database.ts';

const PAGE = 500;

/**
 * Secrets in SQLite. All values of a key are encrypted together with their names, so that none can be removed from a record
 * or moved to another.
 */
export class LocalSecretStore implements SecretStore {
  readonly #database: Database;
  readonly #seal: Seal;
  readonly #page: number;
  readonly #get: PreparedQuery<{ version: Version; sealed: Uint8Array }>;
  readonly #version: PreparedQuery<{ version: Version }>;
  readonly #put: PreparedQuery<never>;
  readonly #remove: PreparedQuery<never>;
  readonly #keys: PreparedQuery<{ key: string }>;

  constructor(database: Database, seal: Seal, page = PAGE) {
    this.#database = database;
    this.#seal = seal;
    this.#page = page;
    this.#get = database.query('SELECT version, sealed FROM secrets WHERE room = ? AND key = ?');
    this.#version = database.query('SELECT version FROM secrets WHERE room = ? AND key = ?');
    this.#put = database.query('INSERT OR REPLACE INTO secrets (room, key, version, sealed) VALUES (?, ?, ?, ?)');
    this.#remove = database.query('DELETE FROM secrets WHERE room = ? AND key = ?');
    this.#keys = database.query('SELECT key FROM secrets WHERE room = ? AND key >= ? ORDER BY key LIMIT ?');
  }

  async get(room: SecretKind, key: string): Promise<SecretRecord | undefined> {
    const row = this.#get.get(room, key);
    if (!row) return undefined;
    return { values: unpack(this.#seal.open(row.sealed, sealingContext(room, key))), version: row.version };
  }

  async put(room: SecretKind, key: string, values: SecretValues, expected?: Version | 'absent'): Promise<Version> {
    const sealed = this.#seal.seal(pack(values), sealingContext(room, key));
    const version = newVersion();
    return this.#database.write(() => {
      if (expected !== undefined) this.#expect(room, key, expected);
      this.#put.run(room, key, version, sealed);
      return version;
    });
  }

  async remove(room: SecretKind, key: string): Promise<void> {
    await this.#database.writeReserved(() => this.#remove.run(room, key));
  }

  async keys(room: SecretKind, cursor?: Cursor): Promise<Page<string>> {
    const found = this.#keys.all(room, cursorPosition(cursor), this.#page + 1).map(({ key }) => key);
    const items = found.slice(0, this.#page);
    const last = items.at(-1);
    return found.length > items.length && last !== undefined ? { items, next: cursorAfter(last) } : { items };
  }

  #expect(room: SecretKind, key: string, expected: Version | 'absent'): void {
    const version = this.#version.get(room, key)?.version;
    if (expected === 'absent') {
      if (version !== undefined) throw new StoreError('exists', `secrets already exist for ${room} ${key}`);
    } else if (version !== expected) {
      throw new StoreError('conflict', `the secrets of ${room} ${key} were changed meanwhile: read them again`);
    }
  }
}

const sealingContext = (room: SecretKind, key: string): SealedPlace => ['secret', room, key];

function pack(values: SecretValues): string {
  return JSON.stringify(Object.entries(values).map(([name, secret]) => [name, secret.reveal()]));
}

function unpack(packed: string): SecretValues {
  const entries: [string, string][] = JSON.parse(packed);
  return Object.freeze(Object.fromEntries(entries.map(([name, value]) => [name, new Secret(value)])));
}
