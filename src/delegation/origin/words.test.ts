import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inOneLine, inOneWord } from './report.ts';

test('what another cluster wrote is one line that a terminal does not obey', () => {
  assert.equal(inOneLine('a\nb\u001b[31mc\u0000 \u2028d'), 'a b [31mc d');
  assert.equal(inOneLine('x'.repeat(1000)).length, 501);
  assert.equal(inOneLine('it ended with exit code 3'), 'it ended with exit code 3');
});

test('a reason is a word, or the usual one', () => {
  assert.equal(inOneWord('OutOfMemory', 'ScriptFailed'), 'OutOfMemory');
  assert.equal(inOneWord('<b>', 'ScriptFailed'), 'ScriptFailed');
});
