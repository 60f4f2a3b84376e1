import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCsv } from './csv.ts';

test('csv: quoted fields contain separators, quotes and line breaks', () => {
  const rows = parseCsv('a,b\r\n"1, ""one""","two\nlines"\n3,\n\n', ',', 10);
  assert.deepEqual(rows, [
    ['a', 'b'],
    ['1, "one"', 'two\nlines'],
    ['3', ''],
  ]);
});

test('csv: no more rows are read than wanted', () => {
  assert.equal(parseCsv('a\n'.repeat(1000), ',', 7).length, 7);
});
