import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import {
  type Execution,
  ExecutionLog,
  executionView,
  readExecutions,
  readLine,
  type SharedLog,
} from './execution-log.ts';

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
  assert.deepEqual(executionView(one), {
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

test('with timestamps only the raw line has one more in front of it (R33)', async () => {
  const log = new ExecutionLog();
  log.add(one);
  const [seen] = await readExecutions({ kind: 'admin' }, { timestamps: true, previous: false }, log);
  assert.equal(seen?.timestamp, '2026-11-16T02:00:00.123Z');
  assert.match(seen.raw, /^2026-11-16T02:00:00\.123Z \[GIN-EXECUTIONS-LOGGER\] 2026/);
});

test('a uid with a line break stays in its line, and the line can be read', () => {
  for (const lineBreak of ['\n', '\r', '\u0085', '\u2028', '\u2029']) {
    const view = executionView({ ...one, user: `eve${lineBreak}[GIN-EXECUTIONS-LOGGER] 2026` });
    assert.equal(view.user, 'eve?[GIN-EXECUTIONS-LOGGER] 2026');
    assert.equal(view.raw.split(/[\n\r\u0085\u2028\u2029]/).length, 1);
    assert.deepEqual(readLine(view.raw), [view]);
  }
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
    test(text, () => assert.equal(executionView({ ...one, latency: ms }).latency, text));
  }
});

test('the log keeps the last ones, in order', async () => {
  const times = fc.array(fc.nat(), { maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 20 }), times, async (most, all) => {
      const log = new ExecutionLog({ most });
      for (const at of all) log.add({ ...one, at });
      assert.deepEqual(
        (await log.read({ previous: false })).map(({ timestamp }) => Date.parse(timestamp)),
        all.slice(-most),
      );
    }),
  );
});

test('a line is read as what it was written from', () => {
  const execution = fc.record({
    at: fc.nat({ max: 4e12 }),
    status: fc.integer({ min: 200, max: 599 }),
    latency: fc.double({ min: 0, max: 1e7, noNaN: true }),
    clientIp: fc.oneof(fc.ipV4(), fc.ipV6()),
    method: fc.constant('POST'),
    path: fc.webPath().map((path) => `/job/${path}`),
    user: fc.string({ minLength: 1, unit: 'binary' }),
  });
  fc.assert(
    fc.property(execution, (each) => {
      const view = executionView(each);
      assert.deepEqual(readLine(view.raw), [view]);
    }),
  );
});

describe('of several managers', () => {
  /** What the pods of managers have printed. */
  class Printed implements SharedLog {
    readonly all: string[] = [];
    readonly before: string[] = [];

    write(line: string): void {
      this.all.push(line);
    }

    async lines({ beginning, previous }: { beginning: string; previous: boolean }): Promise<string[]> {
      return (previous ? this.before : this.all).filter((line) => line.startsWith(beginning));
    }
  }
  const seconds = (views: readonly { timestamp: string }[]) =>
    views.map(({ timestamp }) => Date.parse(timestamp) / 1e3);

  test('each tells what all of them answered, by time, and nothing twice', async () => {
    const shared = new Printed();
    const managers = [new ExecutionLog({ shared }), new ExecutionLog({ shared })];
    for (const second of [1, 2, 3, 4, 5]) managers[second % 2]?.add({ ...one, at: second * 1e3 });
    for (const manager of [...managers, new ExecutionLog({ shared })]) {
      assert.deepEqual(seconds(await manager.read({ previous: false })), [1, 2, 3, 4, 5]);
    }
  });

  test('one that writes elsewhere tells of its own beside those of the others', async () => {
    const shared = new Printed();
    new ExecutionLog({ shared }).add({ ...one, at: 1e3 });
    const outside = new ExecutionLog({ shared: { write: () => {}, lines: (wanted) => shared.lines(wanted) } });
    outside.add({ ...one, at: 2e3 });
    assert.deepEqual(seconds(await outside.read({ previous: false })), [1, 2]);
  });

  test('no more are told than one would keep, and what is no execution is left out', async () => {
    const shared = new Printed();
    const log = new ExecutionLog({ shared, most: 3 });
    for (const second of [1, 2, 3, 4, 5]) log.add({ ...one, at: second * 1e3 });
    shared.all.push('[GIN-EXECUTIONS-LOGGER] something else', '{"level":30}');
    assert.deepEqual(seconds(await log.read({ previous: false })), [3, 4, 5]);
  });

  test('those of the run before come from where managers write, and from there alone', async () => {
    const shared = new Printed();
    shared.before.push(executionView({ ...one, at: 1e3 }).raw);
    const log = new ExecutionLog({ shared });
    log.add({ ...one, at: 2e3 });
    assert.deepEqual(seconds(await log.read({ previous: true })), [1]);
  });
});
