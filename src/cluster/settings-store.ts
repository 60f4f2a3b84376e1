import type { Version } from './version.ts';

/** What an operator may change while the manager runs. */
export interface Settings {
  /** Empty: every image is allowed. */
  allowedImageRepositories: readonly string[];
}

export interface SettingsRecord {
  readonly settings: Settings;
  /** Absent until the first write. */
  readonly version?: Version;
}

export interface SettingsStore {
  read(): Promise<SettingsRecord>;

  /** Throws `conflict` when the settings are not in that version; without one, the last writer wins. */
  write(settings: Settings, expected?: Version): Promise<SettingsRecord>;
}
