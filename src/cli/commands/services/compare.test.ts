import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { lineDiff } from './compare.ts';

const texts = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 12 }).map((lines) => lines.join('\n'));

test('diff: equal texts have no difference', () => {
  fc.assert(fc.property(texts, (text) => assert.deepEqual(lineDiff(text, text), [])));
});

test('diff: it contains exactly the removed and added lines', () => {
  fc.assert(
    fc.property(texts, texts, (before, after) => {
      const lines = lineDiff(before, after);
      const count = (text: string[], line: string) => text.filter((each) => each === line).length;
      for (const letter of ['a', 'b', 'c', 'd']) {
        const change = count(lines, `+ ${letter}`) - count(lines, `- ${letter}`);
        assert.equal(change, count(after.split('\n'), letter) - count(before.split('\n'), letter));
      }
    }),
  );
});

test('diff: changes are shown with three lines of context', () => {
  const before = Array.from({ length: 20 }, (_, index) => `line ${index}`);
  const after = before.with(10, 'changed');
  assert.deepEqual(lineDiff(before.join('\n'), after.join('\n')), [
    '  line 7',
    '  line 8',
    '  line 9',
    '- line 10',
    '+ changed',
    '  line 11',
    '  line 12',
    '  line 13',
    '  …',
  ]);
});
