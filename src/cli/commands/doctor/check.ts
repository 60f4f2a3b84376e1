import type { ClientError } from '../../client/errors.ts';
import type { Column } from '../../client/table.ts';

/** One thing that was looked at. */
export interface Check {
  /** A cluster, or a member. */
  readonly where: string;
  readonly what: string;
  readonly ok: boolean;
  /** What was found, or what is wrong and what to do. */
  readonly said: string;
}

export const CHECK_COLUMNS: readonly Column<Check>[] = [
  { title: 'WHERE', of: ({ where }) => where },
  { title: 'CHECK', of: ({ what }) => what },
  { title: '', of: ({ ok, said }) => (ok ? `ok, ${said}` : said) },
];

export const good = (where: string, what: string, said: string): Check => ({ where, what, ok: true, said });
export const bad = (where: string, what: string, said: string): Check => ({ where, what, ok: false, said });

/** What it says is what to do, already. */
export const failed = (where: string, what: string, error: ClientError): Check => bad(where, what, error.message);
