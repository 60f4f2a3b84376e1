import type { Version } from '../lib/version.ts';

/** What an operator may change while the manager runs. */
export interface StoredSettings {
  /** Empty: every image is allowed. */
  allowedImageRepositories: readonly string[];
}

export interface SettingsRecord {
  readonly settings: StoredSettings;
  /** Absent until the first write. */
  readonly version?: Version;
}

export interface SettingsStore {
  read(): Promise<SettingsRecord>;

  /** Throws `conflict` when the settings are not in that version; without one, the last writer wins. */
  write(settings: StoredSettings, expected?: Version): Promise<SettingsRecord>;
}
