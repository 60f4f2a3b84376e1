import type { Version } from '../../lib/version.ts';
import { type SettingsRecord, type SettingsStore, type StoredSettings, StoreError } from '../../ports/index.ts';
import { type Database, newVersion, type PreparedQuery } from './database.ts';

/** The defaults until settings are written, and for settings that did not exist when they were written. */
const INITIAL: StoredSettings = { allowedImageRepositories: [] };

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
    return row ? toRecord(row.settings, row.version) : { settings: INITIAL };
  }

  async write(settings: StoredSettings, expected?: Version): Promise<SettingsRecord> {
    const version = newVersion();
    const packed = JSON.stringify(settings);
    return this.#database.write(() => {
      if (expected !== undefined && this.#read.get()?.version !== expected) {
        throw new StoreError('conflict', 'the settings were changed meanwhile: read them again');
      }
      this.#write.run(version, packed);
      return toRecord(packed, version);
    });
  }
}

function toRecord(packed: string, version: Version): SettingsRecord {
  const stored: Partial<StoredSettings> = JSON.parse(packed);
  return { settings: { ...INITIAL, ...stored }, version };
}
