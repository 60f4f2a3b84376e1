import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Secret } from '../../../lib/secret.ts';
import { type CallFrame, readEnvelope, readFrame, writeEnvelope, writeFrame } from './call-messages.ts';
import { LineStamper, LineUnstamper, STAMP_BYTES } from './call-output.ts';

const ENVELOPE = {
  orders: '{}',
  stores: '{}',
  script: 'echo',
  begin: 'exec',
  timeout: 5,
  log: new Secret('http://a/b'),
};

test('envelope: it is parsed as it was written', () => {
  const read = readEnvelope(writeEnvelope({ ...ENVELOPE, input: 'aGVsbG8=' }));
  assert.ok(!('problem' in read));
  assert.deepEqual([read.script, read.input, read.log.reveal()], ['echo', 'aGVsbG8=', 'http://a/b']);
});

test('envelope: problems are reported without quoting the content', () => {
  const { log: _, ...without } = JSON.parse(writeEnvelope({ ...ENVELOPE, script: 's3cret' })) as Record<
    string,
    unknown
  >;
  for (const body of [
    JSON.stringify(without),
    JSON.stringify({ ...without, version: 7, log: 's3cret' }),
    '"s3cret"',
    '{s3cret',
  ]) {
    const read = readEnvelope(body);
    assert.ok('problem' in read);
    assert.doesNotMatch(read.problem, /s3cret/);
  }
});

test('frames: they are parsed as they were written', () => {
  const end = { phase: 'ended', outcome: 'failed', reason: 'Lost', message: 'gone', finishedAt: 7 } as const;
  const frames: CallFrame[] = [
    { pod: 'a' },
    { startedAt: 5 },
    { uploading: true },
    { log: 'aGVsbG8=' },
    { end },
    { end, cause: 'timeout' },
    { end, cause: 'died' },
    { end, kept: true },
  ];
  for (const frame of frames) assert.deepEqual(readFrame(writeFrame(frame)), frame);
});

test('frames: an invalid line is ignored', () => {
  for (const line of ['', ' ', '{', 'null', '[]', '{"end":"x"}', '{"startedAt":"x"}', '{"pod":1}', '7'])
    assert.equal(readFrame(line), undefined);
});

const pieces = fc.array(fc.uint8Array({ max: 15, maxLength: 20 }), { maxLength: 10 });

test('call output: each line gets a time, and removing the times gives the original bytes', () => {
  fc.assert(
    fc.property(pieces, fc.nat(40), (printed, size) => {
      const stamping = new LineStamper();
      const stamped = Buffer.concat(printed.map((piece) => stamping.add(piece, 1_700_000_000_000)));
      const whole = Buffer.concat(printed);
      const lines = whole.length === 0 ? 0 : whole.toString('latin1').replace(/\n$/, '').split('\n').length;
      assert.equal(stamped.length, whole.length + lines * STAMP_BYTES);
      const unstamping = new LineUnstamper();
      const out: Uint8Array[] = [];
      for (let at = 0; at < stamped.length; at += size + 1)
        out.push(unstamping.add(stamped.subarray(at, at + size + 1)));
      assert.deepEqual(Buffer.concat(out), whole);
    }),
  );
});
