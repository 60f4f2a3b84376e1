import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { temporaryDirectory } from '../../../../test/support/temporary-directory.ts';
import {
  FrameDecoder,
  type LogEntry,
  type LogPosition,
  LogResumer,
  PositionFile,
  parseLogEntry,
  parseLogTime,
  toMilliseconds,
} from './logs.ts';

test('frames: frames are decoded wherever the stream is split', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 300 })),
      fc.array(fc.integer({ min: 1, max: 50 })),
      (bodies, cuts) => {
        let stream = Buffer.concat(bodies.flatMap((body) => [frameHeader(body), body]));
        const decoder = new FrameDecoder();
        const found: Buffer[] = [];
        for (const cut of [...cuts, stream.length]) {
          found.push(...decoder.decode(stream.subarray(0, cut)));
          stream = stream.subarray(cut);
        }
        assert.deepEqual(
          found.map((each) => each.toString('hex')),
          bodies.map((each) => Buffer.from(each).toString('hex')),
        );
      },
    ),
  );
});

const times = [
  { text: '2026-11-16T02:00:00.123456789Z', seconds: 1_794_794_400, nanoseconds: 123_456_789 },
  { text: '2026-11-16T03:00:00.5+01:00', seconds: 1_794_794_400, nanoseconds: 500_000_000 },
  { text: '2026-11-16T02:00:00Z', seconds: 1_794_794_400, nanoseconds: 0 },
];
for (const { text, ...time } of times) {
  test(`log time: ${text} is parsed to the nanosecond`, () => assert.deepEqual(parseLogTime(text), time));
}

test('log entry: a time is followed by any bytes', () => {
  const frame = Buffer.from('2026-11-16T02:00:00.123456789Z a b\xff\0\n', 'latin1');
  const entry = parseLogEntry(frame);
  assert.ok(entry);
  assert.equal(toMilliseconds(entry.time), 1_794_794_400_123);
  assert.equal(Buffer.from(entry.bytes).toString('latin1'), 'a b\xff\0\n');
  assert.equal(parseLogEntry(Buffer.from('no time')), undefined);
});

/** Logs in which some times repeat and some lines are split. */
const log = fc
  .array(fc.record({ later: fc.nat({ max: 2 }), pieces: fc.integer({ min: 1, max: 3 }) }), { maxLength: 20 })
  .map((lines) => {
    let nanoseconds = 0;
    return lines.flatMap(({ later, pieces }, i) => {
      nanoseconds += later;
      const time = { seconds: 1, nanoseconds };
      return Array.from({ length: pieces }, (_, piece) => logEntry(time, piece + 1 < pieces ? `${i}` : `${i}\n`));
    });
  });

test('resume: a reader that starts at the beginning of a log prints each entry after its position once', () => {
  fc.assert(
    fc.property(log, fc.nat(), fc.nat(), (entries, first, second) => {
      const cuts = [first % (entries.length + 1), second % (entries.length + 1)].toSorted((a, b) => a - b);
      let position: LogPosition | undefined;
      let text = '';
      for (const end of [...cuts, entries.length]) {
        const resumer = new LogResumer(position, true);
        for (const entry of entries.slice(0, end)) {
          const piece = resumer.next(entry);
          text += Buffer.from(piece?.bytes ?? []).toString();
          position = piece?.position ?? position;
        }
      }
      assert.equal(text, entries.map(({ bytes }) => Buffer.from(bytes).toString()).join(''));
    }),
  );
});

test('resume: the newline that Docker drops from a split line is added again, also by the next reader', () => {
  const [first, second] = [1, 2].map((nanoseconds) => ({ seconds: 1, nanoseconds }));
  assert.ok(first && second);
  const pieces = [logEntry(first, 'aaaa'), logEntry(first, 'aa')];
  const next = logEntry(second, 'b\n');
  for (const { podman, printed } of [
    { podman: false, printed: '\nb\n' },
    { podman: true, printed: 'b\n' },
  ]) {
    const reader = new LogResumer(undefined, podman);
    const [, last] = pieces.map((entry) => reader.next(entry));
    assert.equal(Buffer.from(reader.next(next)?.bytes ?? []).toString(), printed);
    const other = new LogResumer(last?.position, podman);
    assert.deepEqual(
      pieces.map((entry) => other.next(entry)),
      [undefined, undefined],
    );
    assert.equal(Buffer.from(other.next(next)?.bytes ?? []).toString(), printed);
  }
});

test('resume: lines with an earlier time are printed after the clock was set back', () => {
  const [late, early] = [9, 1].map((seconds) => ({ seconds, nanoseconds: 0 }));
  assert.ok(late && early);
  const resumer = new LogResumer({ time: late, count: 1, inLine: false }, false);
  const taken = [logEntry(late, 'a\n'), logEntry(early, 'b\n')].map((entry) => resumer.next(entry)?.bytes.length);
  assert.deepEqual(taken, [undefined, 2]);
});

test('position file: a position is read back, and a damaged one is ignored', (t) => {
  const path = join(temporaryDirectory(t), 'position');
  const file = new PositionFile(path);
  assert.equal(file.read(), undefined);
  const long = { time: { seconds: 1_794_794_400, nanoseconds: 999_999_999 }, count: 12_345_678, inLine: true };
  const short = { time: { seconds: 2, nanoseconds: 1 }, count: 1, inLine: false };
  for (const position of [long, short]) {
    file.write(position);
    const again = new PositionFile(path);
    assert.deepEqual(again.read(), position);
    again.close();
  }
  file.close();
  for (const damage of ['', 'x', '\0'.repeat(40), '17 ']) {
    writeFileSync(path, damage);
    const again = new PositionFile(path);
    assert.equal(again.read(), undefined, JSON.stringify(readFileSync(path, 'latin1')));
    again.close();
  }
});

function frameHeader(body: Uint8Array): Buffer {
  const header = Buffer.alloc(8);
  header[0] = 1;
  header.writeUInt32BE(body.length, 4);
  return header;
}

function logEntry(time: LogEntry['time'], text: string): LogEntry {
  return { time, bytes: Buffer.from(text) };
}
