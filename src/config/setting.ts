import type { Field } from './kinds/record.ts';

export const BACKENDS = ['local', 'kubernetes'] as const;
export type Backend = (typeof BACKENDS)[number];

export interface Setting extends Omit<Field, 'default' | 'required'> {
  /** As one would write it; `<NAME>` stands for the number that another setting has. */
  readonly default?: string | Readonly<Record<Backend, string>>;
  /** What holds when it is not set and there is no default. */
  readonly unset?: string;
}

export type Settings = Readonly<Record<string, Setting>>;
