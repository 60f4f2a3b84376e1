import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { type Execution, ExecutionLog, executionView } from './execution-log.ts';

const one: Execution = {
  at: Date.UTC(2026, 10, 16, 2, 0, 0, 123),
  status: 201,
  latency: 12.345678,
  clientIp: '192.0.2.10',
  method: 'POST',
  path: '/job/rec-min',
  user: 'nil',
};

test('an execution is written as the Go manager writes it', () => {
  assert.deepEqual(executionView(one, false), {
    timestamp: '2026-11-16T02:00:00.123Z',
    status: 201,
    latency: '12.345678ms',
    client_ip: '192.0.2.10',
    method: 'POST',
    path: '/job/rec-min',
    user: 'nil',
    raw: '[GIN-EXECUTIONS-LOGGER] 2026-11-16T02:00:00.123Z | 201 |     12.345678ms |       192.0.2.10 | POST    /job/rec-min | nil',
  });
});

test('with timestamps only the raw line has one more in front of it (R33)', () => {
  const { timestamp, raw } = executionView(one, true);
  assert.equal(timestamp, '2026-11-16T02:00:00.123Z');
  assert.match(raw, /^2026-11-16T02:00:00\.123Z \[GIN-EXECUTIONS-LOGGER\] 2026/);
});

describe('a latency reads as Go has it', () => {
  const cases: [number, string][] = [
    [0, '0s'],
    [0.00025, '250ns'],
    [0.8505, '850.5µs'],
    [1, '1ms'],
    [999.999999, '999.999999ms'],
    [2500, '2.5s'],
    [62_500, '1m2.5s'],
    [3_600_000, '1h0m0s'],
    [7_384_001, '2h3m4.001s'],
  ];
  for (const [ms, text] of cases) {
    test(text, () => assert.equal(executionView({ ...one, latency: ms }, false).latency, text));
  }
});

test('the log keeps the last ones, in order', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(fc.nat(), { maxLength: 60 }), (most, times) => {
      const log = new ExecutionLog(most);
      for (const at of times) log.add({ ...one, at });
      assert.deepEqual(
        log.all().map(({ at }) => at),
        times.slice(-most),
      );
    }),
  );
});
