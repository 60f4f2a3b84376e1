import { StoreError } from '../errors.ts';
import type { Settings, SettingsRecord, SettingsStore } from '../settings-store.ts';
import type { Version } from '../version.ts';
import type { Database, Query } from './database.ts';
import { newVersion } from './new-version.ts';

/** What holds until somebody writes; also for settings that are younger than what is stored. */
const INITIAL: Settings = { allowedImageRepositories: [] };

/** The settings in SQLite: one row. */
export class LocalSettingsStore implements SettingsStore {
  readonly #database: Database;
  readonly #read: Query<{ version: Version; settings: string }>;
  readonly #write: Query<never>;

  constructor(database: Database) {
    this.#database = database;
    this.#read = database.query('SELECT version, settings FROM settings');
    this.#write = database.query('INSERT OR REPLACE INTO settings (id, version, settings) VALUES (1, ?, ?)');
  }

  async read(): Promise<SettingsRecord> {
    const row = this.#read.get();
    return row ? recordOf(row.settings, row.version) : { settings: INITIAL };
  }

  async write(settings: Settings, expected?: Version): Promise<SettingsRecord> {
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
  const stored: Partial<Settings> = JSON.parse(packed);
  return { settings: { ...INITIAL, ...stored }, version };
}
