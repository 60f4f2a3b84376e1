import assert from 'node:assert/strict';
import { test } from 'node:test';
import { printable, tableOf } from './table.ts';

test('columns are as wide as their widest cell, and nothing trails', () => {
  const columns = [
    { title: 'A', of: ([a]: readonly string[]) => a ?? '' },
    { title: 'LONGER', of: ([, b]: readonly string[]) => b ?? '' },
  ];
  assert.equal(
    tableOf(
      [
        ['xyz', ''],
        ['', 'b'],
      ],
      columns,
    ),
    'A    LONGER\nxyz\n     b',
  );
});

test('what others have written cannot steer the terminal', () => {
  assert.equal(printable('a\u001b[2Jb\nc\u009bd'), 'a [2Jb c d');
});
