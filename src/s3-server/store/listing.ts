/** What a listing asks for. Names are in the order of their UTF-8 bytes. */
export interface ListingQuery {
  readonly prefix: string;
  /** Empty: nothing is grouped. */
  readonly delimiter: string;
  /** Only names after this one; a group counts as its common prefix. */
  readonly after: string;
  readonly limit: number;
}

export interface ObjectListing<Row> {
  readonly rows: readonly Row[];
  readonly commonPrefixes: readonly string[];
  readonly truncated: boolean;
  /** The last name of this page, key or common prefix: `after` of the next one. */
  readonly last: string;
}

/** Rows of a bucket whose key is not below `from`, in order, at most `limit` of them. */
export type RowSource<Row> = (from: string, limit: number) => Iterable<Row>;

/**
 * One page. A group of keys costs one look-up however many keys it has, because the next look-up begins behind it.
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
    // One more than fits says whether there is a next page.
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

/** The common prefix under which a key is shown, or undefined when it is shown itself. */
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

/** The first text that comes after everything that begins with `prefix`; undefined when there is none. */
export function afterPrefix(prefix: string): string | undefined {
  const points = Array.from(prefix, (c) => c.codePointAt(0) ?? 0);
  while (points.at(-1) === LAST_CODE_POINT) points.pop();
  const last = points.pop();
  if (last === undefined) return undefined;
  // Surrogates are no characters of their own.
  return String.fromCodePoint(...points, last === 0xd7ff ? 0xe000 : last + 1);
}
