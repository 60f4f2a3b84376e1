/** Selects a page of a listing. Names are in the order of their UTF-8 bytes. */
export interface ListingQuery {
  readonly prefix: string;
  /** Empty: names are not grouped. */
  readonly delimiter: string;
  /** Only names after this one. A group counts as its common prefix. */
  readonly after: string;
  readonly limit: number;
}

export interface ObjectListing<Row> {
  readonly rows: readonly Row[];
  readonly commonPrefixes: readonly string[];
  readonly truncated: boolean;
  /** The last key or common prefix of this page: `after` of the next page. */
  readonly last: string;
}

/** Reads at most `limit` rows of a bucket, in order, beginning with the key `from`. */
export type RowSource<Row> = (from: string, limit: number) => Iterable<Row>;

/**
 * Reads one page. A group of keys costs one query, however many keys it has, because the next query begins after it.
 */
export function listPage<Row extends { readonly key: string }>(
  source: RowSource<Row>,
  { prefix, delimiter, after, limit }: ListingQuery,
): ObjectListing<Row> {
  const rows: Row[] = [];
  const commonPrefixes: string[] = [];
  let last = '';
  let from: string | undefined = findFirstKey(prefix, delimiter, after);
  const full = () => rows.length + commonPrefixes.length >= limit;
  const page = (truncated: boolean) => ({ rows, commonPrefixes, truncated, last });
  if (limit <= 0) return page(false);

  while (from !== undefined) {
    // One row more than fits shows whether there is a next page.
    const wanted = limit - rows.length - commonPrefixes.length + 1;
    let seen = 0;
    let next: string | undefined;
    for (const row of source(from, wanted)) {
      seen++;
      if (!row.key.startsWith(prefix)) return page(false);
      if (full()) return page(true);
      const group = findCommonPrefix(row.key, prefix, delimiter);
      if (group === undefined) {
        rows.push(row);
        last = row.key;
        next = `${row.key}\0`;
      } else {
        commonPrefixes.push(group);
        last = group;
        next = afterPrefix(group);
        break;
      }
    }
    if (seen === 0) return page(false);
    from = next;
  }
  return page(false);
}

/** The common prefix that represents a key in the listing; undefined if the key itself is listed. */
function findCommonPrefix(key: string, prefix: string, delimiter: string): string | undefined {
  if (delimiter === '') return undefined;
  const at = key.indexOf(delimiter, prefix.length);
  return at < 0 ? undefined : key.slice(0, at + delimiter.length);
}

function findFirstKey(prefix: string, delimiter: string, after: string): string | undefined {
  if (after === '' || Buffer.compare(Buffer.from(after), Buffer.from(prefix)) < 0) return prefix;
  const isGroup = after.startsWith(prefix) && findCommonPrefix(after, prefix, delimiter) === after;
  return isGroup ? afterPrefix(after) : `${after}\0`;
}

const LAST_CODE_POINT = 0x10ffff;

/** The first text after all texts that begin with `prefix`; undefined if there is none. */
export function afterPrefix(prefix: string): string | undefined {
  const points = Array.from(prefix, (c) => c.codePointAt(0) ?? 0);
  while (points.at(-1) === LAST_CODE_POINT) points.pop();
  const last = points.pop();
  if (last === undefined) return undefined;
  // Skips the surrogates, which are not characters.
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}
