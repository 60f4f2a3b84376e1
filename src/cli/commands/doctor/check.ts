import type { ClientError } from '../../client/errors.ts';
import type { Column } from '../../client/table.ts';

/** The result of one check. */
export interface Check {
  /** A cluster, or a member. */
  readonly where: string;
  readonly what: string;
  readonly ok: boolean;
  /** Works, but is not as it should be. */
  readonly warning?: true;
  /** What was found, or what is wrong and what to do about it. */
  readonly said: string;
}

export const CHECK_COLUMNS: readonly Column<Check>[] = [
  { title: 'WHERE', of: ({ where }) => where },
  { title: 'CHECK', of: ({ what }) => what },
  { title: '', of: ({ ok, warning, said }) => (ok ? `${warning ? 'warning' : 'ok'}, ${said}` : said) },
];

export const passed = (where: string, what: string, said: string): Check => ({ where, what, ok: true, said });
export const warned = (where: string, what: string, said: string): Check => ({
  ...passed(where, what, said),
  warning: true,
});
export const failure = (where: string, what: string, said: string): Check => ({ where, what, ok: false, said });

export const failed = (where: string, what: string, error: ClientError): Check => failure(where, what, error.message);
