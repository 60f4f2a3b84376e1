import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ratchetProblem } from './ratchets.ts';

const ratchet = { what: 'cycles', count: 2 };

test('ratchet: a count that has risen is a problem, and everything that was counted is listed', () => {
  assert.equal(ratchetProblem(ratchet, ['a', 'b', 'c']), '3 cycles, 2 are allowed:\n  a\n  b\n  c\n');
});

test('ratchet: a count that has fallen is a problem until the table is lowered', () => {
  const problem = ratchetProblem(ratchet, ['a']);
  assert.equal(problem, '1 cycles, fewer than before: lower the number in tools/ratchets.ts from 2 to 1');
});

test('ratchet: a count that is as the table says is none', () => {
  assert.equal(ratchetProblem(ratchet, ['a', 'b']), undefined);
});
