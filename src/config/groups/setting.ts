import type { SettingField } from '../kinds/kind.ts';

export const BACKENDS = ['local', 'kubernetes'] as const;
export type BackendName = (typeof BACKENDS)[number];

export interface Setting extends Omit<SettingField, 'default' | 'required'> {
  /** As one would write it; `<NAME>` stands for the number that another setting has. */
  readonly default?: string | Readonly<Record<BackendName, string>>;
  /** What holds when it is not set and there is no default. */
  readonly unset?: string;
}

export type Settings = Readonly<Record<string, Setting>>;
