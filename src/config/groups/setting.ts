import type { SettingField } from '../kinds/kind.ts';

export const BACKENDS = ['local', 'kubernetes'] as const;
export type BackendName = (typeof BACKENDS)[number];

export interface Setting extends Omit<SettingField, 'default' | 'required'> {
  /** As an operator would write it; `<NAME>` is replaced with the number in another setting. */
  readonly default?: string | Readonly<Record<BackendName, string>>;
  /** For the documentation: what applies if it is not set and has no default. */
  readonly unset?: string;
}

export type Settings = Readonly<Record<string, Setting>>;
