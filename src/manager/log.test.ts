import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readableLine } from './log.ts';

test('log: a readable line has the time, the level, the message and the fields', () => {
  const line = JSON.stringify({
    level: 30,
    time: '2026-01-02T03:04:05.678Z',
    service: 'demo',
    ms: 1.5,
    msg: 'request',
  });
  assert.equal(readableLine(line), '03:04:05 info  request service=demo ms=1.5');
});

test('log: the stack of an error is below the line', () => {
  const line = JSON.stringify({
    level: 50,
    time: '2026-01-02T03:04:05.678Z',
    err: { stack: 'Error: x\n    at y' },
    msg: 'failed',
  });
  assert.equal(readableLine(line), '03:04:05 ERROR failed\nError: x\n    at y');
});
