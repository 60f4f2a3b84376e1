import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toReasonCode, toSingleLine } from './report.ts';

test('report: text from another cluster becomes one line without control characters', () => {
  assert.equal(toSingleLine('a\nb\u001b[31mc\u0000 \u2028d'), 'a b [31mc d');
  assert.equal(toSingleLine('x'.repeat(1000)).length, 501);
  assert.equal(toSingleLine('it ended with exit code 3'), 'it ended with exit code 3');
});

test('report: a reason is one word, or the default', () => {
  assert.equal(toReasonCode('OutOfMemory', 'ScriptFailed'), 'OutOfMemory');
  assert.equal(toReasonCode('<b>', 'ScriptFailed'), 'ScriptFailed');
});
