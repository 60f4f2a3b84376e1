import { type Check, failure } from '../../../model/cluster-checks.ts';
import type { ClientError } from '../../client/errors.ts';
import type { Column } from '../../client/table.ts';

export const CHECK_COLUMNS: readonly Column<Check>[] = [
  { title: 'WHERE', of: ({ where }) => where },
  { title: 'CHECK', of: ({ what }) => what },
  { title: '', of: ({ ok, warning, said }) => (ok ? `${warning ? 'warning' : 'ok'}, ${said}` : said) },
];

export const failed = (where: string, what: string, error: ClientError): Check => failure(where, what, error.message);
