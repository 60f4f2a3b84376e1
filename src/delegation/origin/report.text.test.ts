import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toReasonCode, toSingleLine } from './report.ts';

test('what another cluster wrote is one line that a terminal does not obey', () => {
  assert.equal(toSingleLine('a\nb\u001b[31mc\u0000 \u2028d'), 'a b [31mc d');
  assert.equal(toSingleLine('x'.repeat(1000)).length, 501);
  assert.equal(toSingleLine('it ended with exit code 3'), 'it ended with exit code 3');
});

test('a reason is a word, or the usual one', () => {
  assert.equal(toReasonCode('OutOfMemory', 'ScriptFailed'), 'OutOfMemory');
  assert.equal(toReasonCode('<b>', 'ScriptFailed'), 'ScriptFailed');
});
