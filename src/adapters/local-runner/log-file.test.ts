import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import * as fc from 'fast-check';
import { AttemptLog, type LogFormat, readAttemptLog } from './log-file.ts';

const AT = Date.parse('2026-02-03T04:05:06.789Z');
const STAMP = '2026-02-03T04:05:06.789000000Z';
const MEBIBYTE = 2 ** 20;

test('log file: each line has its time, notices are marked, an unfinished line stays unfinished', async (t) => {
  const { log, read } = make(t);
  log.notice('begins', AT);
  log.print(Buffer.from('a\n\nb'), AT);
  log.print(Buffer.from('c'), AT + 1000);
  assert.equal(await read('timestamps'), `${STAMP} oscar: begins\n${STAMP} a\n${STAMP} \n${STAMP} bc`);
  assert.equal(await read('plain'), 'oscar: begins\na\n\nbc');
  assert.equal(await read('printed'), 'a\n\nbc');
  log.notice('ends,\nwell', AT);
  log.print(Buffer.from('d\n'), AT);
  assert.equal(await read('plain'), 'oscar: begins\na\n\nbc\noscar: ends, well\nd\n');
  assert.equal(await read('printed'), 'a\n\nbcd\n');
});

test('log file: the file is plain text', (t) => {
  const { log, path } = make(t);
  log.print(Buffer.from('hello\n'), AT);
  assert.equal(readFileSync(path, 'utf8'), `${STAMP} hello\n`);
});

test('log file: a reopened log continues where it ended, also in the middle of a line', async (t) => {
  const { log, path, read } = make(t);
  log.print(Buffer.from('one\ntw'), AT);
  log.close();
  const again = new AttemptLog(path, MEBIBYTE);
  again.print(Buffer.from('o\nthree\n'), AT + 1000);
  again.close();
  assert.equal(await read('timestamps'), `${STAMP} one\n${STAMP} two\n${STAMP.replace('06.', '07.')} three\n`);
});

test('log file: any output, in any pieces, is read back byte by byte', async (t) => {
  const piece = fc.uint8Array({ maxLength: 20 }).map((bytes) => bytes.map((byte) => (byte % 5 === 0 ? 0x0a : byte)));
  const step = fc.oneof({ weight: 5, arbitrary: piece }, fc.constantFrom('notice', 'reopen'));
  await fc.assert(
    fc.asyncProperty(fc.array(step), async (steps) => {
      const made = make(t);
      let { log } = made;
      const expected: Uint8Array[] = [];
      for (const each of steps) {
        if (each === 'notice') log.notice('x', AT);
        else if (each === 'reopen') {
          log.close();
          log = new AttemptLog(made.path, MEBIBYTE);
        } else if (typeof each !== 'string') {
          log.print(each, AT);
          expected.push(each);
        }
      }
      log.close();
      assert.deepEqual(await made.bytes('printed'), Buffer.concat(expected));
    }),
  );
});

for (const line of ['y\n', 'no end ', `${'x'.repeat(999)}\n`]) {
  test(`log file: a log stops at its limit and ends with a notice: ${JSON.stringify(line.slice(0, 8))}`, async (t) => {
    const { log, path, read } = make(t, 10_000);
    const bytes = Buffer.from(line.repeat(Math.ceil(30_000 / line.length)));
    log.print(bytes, AT);
    log.print(bytes, AT);
    log.close();
    const again = new AttemptLog(path, 10_000);
    again.print(bytes, AT);
    again.notice('the end', AT);
    again.close();
    assert.ok(readFileSync(path).length < 10_300);
    const lines = (await read('plain')).split('\n').slice(-3);
    assert.match(lines[0] ?? '', /^oscar: the log is full \(10000 bytes\)/);
    assert.deepEqual(lines.slice(1), ['oscar: the end', '']);
    assert.ok(bytes.toString().startsWith(await read('printed')));
    assert.ok((await read('printed')).length > (line === 'y\n' ? 500 : 9_000));
  });
}

test('log file: a reader is woken when the log grows and when it is closed', async (t) => {
  const { log, path } = make(t);
  const seen: string[] = [];
  const following = (async () => {
    const more = async (size: number) => {
      if (log.closed) return false;
      await log.grown(size);
      return true;
    };
    for await (const bytes of readAttemptLog(path, 'plain', more)) seen.push(Buffer.from(bytes).toString());
  })();
  log.print(Buffer.from('one\n'), AT);
  await log.grown(0);
  log.print(Buffer.from('two\n'), AT);
  log.close();
  await following;
  assert.equal(seen.join(''), 'one\ntwo\n');
  log.print(Buffer.from('late'), AT);
  log.notice('late', AT);
});

function make(t: TestContext, maxBytes = MEBIBYTE) {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-log-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const path = join(directory, 'log');
  const log = new AttemptLog(path, maxBytes);
  t.after(() => log.close());
  const bytes = async (as: LogFormat) => Buffer.concat(await Array.fromAsync(readAttemptLog(path, as)));
  return { log, path, bytes, read: async (as: LogFormat) => (await bytes(as)).toString() };
}
