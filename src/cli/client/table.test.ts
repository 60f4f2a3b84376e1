import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatTable, printable } from './table.ts';

test('table: columns are as wide as their widest cell, without trailing spaces', () => {
  const columns = [
    { title: 'A', of: ([a]: readonly string[]) => a ?? '' },
    { title: 'LONGER', of: ([, b]: readonly string[]) => b ?? '' },
  ];
  assert.equal(
    formatTable(
      [
        ['xyz', ''],
        ['', 'b'],
      ],
      columns,
    ),
    'A    LONGER\nxyz\n     b',
  );
});

test('table: control characters of other users are not printed', () => {
  assert.equal(printable('a\u001b[2Jb\nc\u009bd'), 'a [2Jb c d');
});
