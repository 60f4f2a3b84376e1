import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { afterPrefix, type ListingQuery, listPage, type ObjectListing } from './listing.ts';

interface Row {
  readonly key: string;
}

const compare = (one: string, other: string) => Buffer.compare(Buffer.from(one), Buffer.from(other));

const page = (keys: readonly string[], question: ListingQuery): ObjectListing<Row> => {
  const rows = [...new Set(keys)].toSorted(compare).map((key) => ({ key }));
  return listPage((from, limit) => rows.filter(({ key }) => compare(key, from) >= 0).slice(0, limit), question);
};

/** The model: all names of a listing, computed in the simplest way. */
function naive(keys: readonly string[], prefix: string, delimiter: string): string[] {
  const names = new Set<string>();
  for (const key of keys) {
    if (!key.startsWith(prefix)) continue;
    const at = delimiter === '' ? -1 : key.indexOf(delimiter, prefix.length);
    names.add(at < 0 ? key : key.slice(0, at + delimiter.length));
  }
  return [...names].toSorted(compare);
}

const part = fc.constantFrom('a', 'b', 'ab', '/', '//', 'é', '\u{1f600}', '\ufffd', '\0', '\u{10ffff}', '.', '..');
const key = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join(''));
const keys = fc.array(key, { maxLength: 25 });

test('listing: pages of any size together give the whole listing', () => {
  const prefix = fc.constantFrom('', 'a', 'a/', '/', 'é', '\u{1f600}');
  const delimiter = fc.constantFrom('', '/', '//', 'a', 'é', '\u{10ffff}');
  fc.assert(
    fc.property(keys, prefix, delimiter, fc.integer({ min: 1, max: 7 }), (all, before, between, limit) => {
      const names: string[] = [];
      let after = '';
      for (let more = true; more; ) {
        const { rows, commonPrefixes, truncated, last } = page(all, {
          prefix: before,
          delimiter: between,
          after,
          limit,
        });
        const these = [...rows.map((row) => row.key), ...commonPrefixes].toSorted(compare);
        assert.ok(these.length <= limit && (!truncated || these.length === limit));
        assert.equal(last, these.at(-1) ?? '');
        names.push(...these);
        after = last;
        more = truncated;
      }
      assert.deepEqual(names, naive(all, before, between));
    }),
    { numRuns: 500 },
  );
});

test('listing: a page after a name has only later names', () => {
  fc.assert(
    fc.property(keys, key, (all, after) => {
      const { rows } = page(all, { prefix: '', delimiter: '', after, limit: 100 });
      const expected = [...new Set(all)].filter((each) => compare(each, after) > 0).toSorted(compare);
      assert.deepEqual(
        rows.map((row) => row.key),
        expected,
      );
    }),
  );
});

test('listing: a page of size 0 is empty and not truncated', () => {
  const { rows, truncated } = page(['a'], { prefix: '', delimiter: '', after: '', limit: 0 });
  assert.deepEqual({ rows, truncated }, { rows: [], truncated: false });
});

test('listing: afterPrefix is after all names with the prefix and before all other later names', () => {
  fc.assert(
    fc.property(key, key, (prefix, other) => {
      const next = afterPrefix(prefix);
      if (next === undefined) return;
      assert.ok(compare(prefix + other, next) < 0);
      if (!other.startsWith(prefix) && compare(other, prefix) > 0) assert.ok(compare(other, next) >= 0);
    }),
  );
});
