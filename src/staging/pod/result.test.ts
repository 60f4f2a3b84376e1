import assert from 'node:assert/strict';
import { test } from 'node:test';
import { array, assert as assertProperty, property, string } from 'fast-check';
import { readResult, writeResult } from './result.ts';

const END = { phase: 'ended', outcome: 'failed', reason: 'OutputFailed', finishedAt: 1_700_000_000_000 } as const;

test('result: it is parsed as it was written', () => {
  const manifest = 'a'.repeat(64);
  const result = {
    ...END,
    message: 'it "broke"',
    startedAt: 1,
    exitCode: 0,
    manifest,
    answered: true,
    notices: ['a', 'b'],
  };
  assert.deepEqual(readResult(writeResult(result)), result);
  assert.deepEqual(readResult(writeResult({ ...END, message: 'm' })), { ...END, message: 'm' });
});

test('result: any message fits into a termination message and is parsed again', () => {
  const words = string({ unit: 'binary', maxLength: 1500 });
  const check = (message: string, notices: string[]) => {
    const written = writeResult({ ...END, message, notices });
    assert.ok(Buffer.byteLength(written) <= 4096);
    const read = readResult(written);
    assert.ok(read && message.length >= read.message.length - 1);
    assert.ok(![read.message, ...(read.notices ?? [])].some((each) => /\p{Cc}/u.test(each)));
  };
  assertProperty(property(words, array(words, { maxLength: 3 }), check), { numRuns: 20 });
  check('"'.repeat(5000), ['\\'.repeat(5000), '…'.repeat(5000)]);
});

test('result: another termination message is not a result', () => {
  for (const words of ['', 'Error: out of memory', '{}', 'null', '{"phase":"ended"}'])
    assert.equal(readResult(words), undefined);
});
