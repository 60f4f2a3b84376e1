import type { Version } from '../../lib/version.ts';
import { type SettingsRecord, type SettingsStore, type StoredSettings, StoreError } from '../../ports/index.ts';
import { type Database, newVersion, type PreparedQuery } from './database.ts';

/** What holds until somebody writes; also for settings that are younger than what is stored. */
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
    return row ? recordOf(row.settings, row.version) : { settings: INITIAL };
  }

  async write(settings: StoredSettings, expected?: Version): Promise<SettingsRecord> {
    const version = newVersion();
    const packed = JSON.stringify(settings);
    return this.#database.write(() => {
      if (expected !== undefined && this.#read.get()?.version !== expected) {
        throw new StoreError('conflict', 'the settings were changed by someone else meanwhile: read them again');
      }
      this.#write.run(version, packed);
      return recordOf(packed, version);
    });
  }
}

function recordOf(packed: string, version: Version): SettingsRecord {
  const stored: Partial<StoredSettings> = JSON.parse(packed);
  return { settings: { ...INITIAL, ...stored }, version };
}
