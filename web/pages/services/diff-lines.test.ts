import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { diffLines } from './diff-lines.ts';

test('diff: equal texts have no changes', () => {
  assert.deepEqual(diffLines('a\nb', 'a\nb'), []);
});

test('diff: a changed line is removed and added', () => {
  assert.deepEqual(diffLines('a\nb\nc', 'a\nx\nc'), [
    { kind: 'removed', line: 'b', number: 2 },
    { kind: 'added', line: 'x', number: 2 },
  ]);
});

test('diff: the changes applied to the old text give the new one', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 12 }).map((lines) => lines.join('\n'));
  fc.assert(
    fc.property(text, text, (before, after) => {
      const changes = diffLines(before, after);
      const removed = new Set(changes.filter(({ kind }) => kind === 'removed').map(({ number }) => number));
      const added = new Map(changes.filter(({ kind }) => kind === 'added').map(({ number, line }) => [number, line]));
      const kept = before.split('\n').filter((_, index) => !removed.has(index + 1));
      const result: string[] = [];
      while (kept.length > 0 || added.has(result.length + 1)) {
        const line = added.get(result.length + 1) ?? kept.shift();
        result.push(line ?? '');
      }
      assert.equal(result.join('\n'), after);
    }),
  );
});
