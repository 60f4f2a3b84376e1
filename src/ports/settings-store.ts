import type { Version } from '../lib/version.ts';

/** Settings that an operator can change while the manager runs. */
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

  /** Throws `conflict` if the settings have another version; without `expected` the last writer wins. */
  write(settings: StoredSettings, expected?: Version): Promise<SettingsRecord>;
}
