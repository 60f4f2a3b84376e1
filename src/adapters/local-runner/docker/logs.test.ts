import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { temporaryDirectory } from '../../../../test/support/temporary-directory.ts';
import {
  Frames,
  type LogEntry,
  type LogPosition,
  millisecondsOf,
  PositionFile,
  Resume,
  readEntry,
  readTime,
} from './logs.ts';

test('frames are found, however the stream is cut', () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 300 })),
      fc.array(fc.integer({ min: 1, max: 50 })),
      (bodies, cuts) => {
        let stream = Buffer.concat(bodies.flatMap((body) => [headerOf(body), body]));
        const frames = new Frames();
        const found: Buffer[] = [];
        for (const cut of [...cuts, stream.length]) {
          found.push(...frames.take(stream.subarray(0, cut)));
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
  test(`${text} is read as exactly as it is written`, () => assert.deepEqual(readTime(text), time));
}

test('an entry is a time and bytes of any kind', () => {
  const frame = Buffer.from('2026-11-16T02:00:00.123456789Z a b\xff\0\n', 'latin1');
  const entry = readEntry(frame);
  assert.ok(entry);
  assert.equal(millisecondsOf(entry.time), 1_794_794_400_123);
  assert.equal(Buffer.from(entry.bytes).toString('latin1'), 'a b\xff\0\n');
  assert.equal(readEntry(Buffer.from('no time')), undefined);
});

/** Times that stand still now and then, in lines that are cut now and then. */
const log = fc
  .array(fc.record({ later: fc.nat({ max: 2 }), pieces: fc.integer({ min: 1, max: 3 }) }), { maxLength: 20 })
  .map((lines) => {
    let nanoseconds = 0;
    return lines.flatMap(({ later, pieces }, i) => {
      nanoseconds += later;
      const time = { seconds: 1, nanoseconds };
      return Array.from({ length: pieces }, (_, piece) => entryOf(time, piece + 1 < pieces ? `${i}` : `${i}\n`));
    });
  });

test('whoever reads a log again from its beginning gets what comes after the position, once', () => {
  fc.assert(
    fc.property(log, fc.nat(), fc.nat(), (entries, first, second) => {
      const cuts = [first % (entries.length + 1), second % (entries.length + 1)].toSorted((a, b) => a - b);
      let position: LogPosition | undefined;
      let text = '';
      for (const end of [...cuts, entries.length]) {
        const resume = new Resume(position, true);
        for (const entry of entries.slice(0, end)) {
          const piece = resume.take(entry);
          text += Buffer.from(piece?.bytes ?? []).toString();
          position = piece?.position ?? position;
        }
      }
      assert.equal(text, entries.map(({ bytes }) => Buffer.from(bytes).toString()).join(''));
    }),
  );
});

test('the newline that Docker forgets of a line in pieces is put back, also by the next reader', () => {
  const [first, second] = [1, 2].map((nanoseconds) => ({ seconds: 1, nanoseconds }));
  assert.ok(first && second);
  const pieces = [entryOf(first, 'aaaa'), entryOf(first, 'aa')];
  const next = entryOf(second, 'b\n');
  for (const { podman, printed } of [
    { podman: false, printed: '\nb\n' },
    { podman: true, printed: 'b\n' },
  ]) {
    const reader = new Resume(undefined, podman);
    const [, last] = pieces.map((entry) => reader.take(entry));
    assert.equal(Buffer.from(reader.take(next)?.bytes ?? []).toString(), printed);
    const other = new Resume(last?.position, podman);
    assert.deepEqual(
      pieces.map((entry) => other.take(entry)),
      [undefined, undefined],
    );
    assert.equal(Buffer.from(other.take(next)?.bytes ?? []).toString(), printed);
  }
});

test('lines whose time lies before the position come as well, when the clock was set back', () => {
  const [late, early] = [9, 1].map((seconds) => ({ seconds, nanoseconds: 0 }));
  assert.ok(late && early);
  const resume = new Resume({ time: late, count: 1, inLine: false }, false);
  const taken = [entryOf(late, 'a\n'), entryOf(early, 'b\n')].map((entry) => resume.take(entry)?.bytes.length);
  assert.deepEqual(taken, [undefined, 2]);
});

test('a position is found again, and one that is damaged is none', (t) => {
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

function headerOf(body: Uint8Array): Buffer {
  const header = Buffer.alloc(8);
  header[0] = 1;
  header.writeUInt32BE(body.length, 4);
  return header;
}

function entryOf(time: LogEntry['time'], text: string): LogEntry {
  return { time, bytes: Buffer.from(text) };
}
