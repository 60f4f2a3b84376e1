import { type Seal, type SealedPlace, Secret } from '../../lib/secret.ts';
import type { Cursor, Page, Version } from '../../lib/version.ts';
import {
  cursorAfter,
  cursorPosition,
  type Journal,
  type JournalEntry,
  type JournalState,
  packState,
  type SecretKind,
  type SecretRecord,
  type SecretStore,
  type SecretValues,
  type SettingsRecord,
  type SettingsStore,
  type StoredSettings,
  StoreError,
} from '../../ports/index.ts';
import { type Database, newVersion, type PreparedQuery } from './database.ts';

/*
 * The journal, the secrets and the settings in SQLite: each is a table of values with a version, which is compared when a
 * value is replaced.
 */

const JOURNAL_PAGE = 100;

interface JournalRow {
  key: string;
  version: Version;
  state: string;
}

/** The journal in SQLite. */
export class LocalJournal implements Journal {
  readonly #database: Database;
  readonly #page: number;
  readonly #read: PreparedQuery<JournalRow>;
  readonly #version: PreparedQuery<{ version: Version }>;
  readonly #begin: PreparedQuery<never>;
  readonly #claim: PreparedQuery<never>;
  readonly #advance: PreparedQuery<never>;
  readonly #finish: PreparedQuery<never>;
  readonly #list: PreparedQuery<JournalRow>;

  constructor(database: Database, page = JOURNAL_PAGE) {
    this.#database = database;
    this.#page = page;
    this.#read = database.query('SELECT key, version, state FROM journal WHERE key = ?');
    this.#version = database.query('SELECT version FROM journal WHERE key = ?');
    this.#begin = database.query('INSERT INTO journal (key, version, state) VALUES (?, ?, ?) ON CONFLICT DO NOTHING');
    this.#claim = database.query('UPDATE journal SET version = ? WHERE key = ? AND version = ?');
    this.#advance = database.query('UPDATE journal SET version = ?, state = ? WHERE key = ?');
    this.#finish = database.query('DELETE FROM journal WHERE key = ?');
    this.#list = database.query('SELECT key, version, state FROM journal WHERE key >= ? ORDER BY key LIMIT ?');
  }

  async begin(key: string, state: JournalState): Promise<JournalEntry> {
    const row = { key, version: newVersion(), state: packState(key, state) };
    return this.#database.writeReserved(() => {
      if (this.#begin.run(key, row.version, row.state).changes === 1) return toEntry(row);
      throw new StoreError('exists', `"${key}" is already in the journal`);
    });
  }

  async read(key: string): Promise<JournalEntry | undefined> {
    const row = this.#read.get(key);
    return row && toEntry(row);
  }

  async claim(key: string, expected: Version): Promise<Version | 'busy'> {
    const version = newVersion();
    return this.#database.writeReserved(() =>
      this.#claim.run(version, key, expected).changes === 1 ? version : 'busy',
    );
  }

  async advance(key: string, expected: Version, state: JournalState): Promise<Version> {
    const version = newVersion();
    const packed = packState(key, state);
    return this.#database.writeReserved(() => {
      this.#expect(key, expected);
      this.#advance.run(version, packed, key);
      return version;
    });
  }

  async finish(key: string, expected: Version): Promise<void> {
    await this.#database.writeReserved(() => {
      this.#expect(key, expected);
      this.#finish.run(key);
    });
  }

  async list(prefix: string, cursor?: Cursor): Promise<Page<JournalEntry>> {
    const items: JournalEntry[] = [];
    // Keys with the same prefix are adjacent, so the first key without it ends the list.
    for (const row of this.#list.iterate(cursorPosition(cursor, prefix), this.#page + 1)) {
      if (!row.key.startsWith(prefix)) break;
      const last = items.at(-1);
      if (last && items.length === this.#page) return { items, next: cursorAfter(last.key) };
      items.push(toEntry(row));
    }
    return { items };
  }

  #expect(key: string, expected: Version): void {
    const version = this.#version.get(key)?.version;
    if (version === undefined) throw new StoreError('absent', `"${key}" is not in the journal`);
    if (version !== expected) {
      throw new StoreError('conflict', `"${key}" in the journal was claimed by another request meanwhile`);
    }
  }
}

function toEntry({ key, version, state }: JournalRow): JournalEntry {
  const parsed: JournalState = JSON.parse(state);
  return { key, version, state: parsed };
}

const SECRETS_PAGE = 500;

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

  constructor(database: Database, seal: Seal, page = SECRETS_PAGE) {
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

/** The defaults until settings are written, and for settings that did not exist when they were written. */
const INITIAL_SETTINGS: StoredSettings = { allowedImageRepositories: [] };

/** The settings in SQLite: one row. */
export class LocalSettingsStore implements SettingsStore {
  readonly #database: Database;
  readonly #read: PreparedQuery<{ version: Version; settings: string }>;
  readonly #write: PreparedQuery<never>;

  constructor(database: Database) {
    this.#database = database;
    this.#read = database.query('SELECT version, settings FROM settings');
    this.#write = database.query('INSERT OR REPLACE INTO settings (id, version, settings) VALUES (1, ?, ?)');
  }

  async read(): Promise<SettingsRecord> {
    const row = this.#read.get();
    return row ? toSettings(row.settings, row.version) : { settings: INITIAL_SETTINGS };
  }

  async write(settings: StoredSettings, expected?: Version): Promise<SettingsRecord> {
    const version = newVersion();
    const packed = JSON.stringify(settings);
    return this.#database.write(() => {
      if (expected !== undefined && this.#read.get()?.version !== expected) {
        throw new StoreError('conflict', 'the settings were changed meanwhile: read them again');
      }
      this.#write.run(version, packed);
      return toSettings(packed, version);
    });
  }
}

function toSettings(packed: string, version: Version): SettingsRecord {
  const stored: Partial<StoredSettings> = JSON.parse(packed);
  return { settings: { ...INITIAL_SETTINGS, ...stored }, version };
}
