import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { readCopyRange, readCopySource, readRange } from './request-headers.ts';

const cases = [
  { header: 'bytes=0-9', size: 100, range: { start: 0, length: 10 } },
  { header: 'bytes=90-', size: 100, range: { start: 90, length: 10 } },
  { header: 'bytes=-10', size: 100, range: { start: 90, length: 10 } },
  { header: 'bytes=-200', size: 100, range: { start: 0, length: 100 } },
  { header: 'bytes=50-1000', size: 100, range: { start: 50, length: 50 } },
  { header: 'bytes=5-4', size: 100, range: undefined },
  { header: 'bytes=0-1,5-6', size: 100, range: undefined },
  { header: 'items=0-1', size: 100, range: undefined },
  { header: 'bytes=-', size: 100, range: undefined },
  { header: undefined, size: 100, range: undefined },
];
for (const { header, size, range } of cases) {
  test(`range: ${header} of ${size} bytes is ${range ? `${range.length} bytes from ${range.start}` : 'everything'}`, () => {
    assert.deepEqual(readRange(header, size), range);
  });
}

for (const header of ['bytes=100-', 'bytes=100-200', 'bytes=-0']) {
  test(`range: ${header} is rejected for an object of 100 bytes`, () => {
    assert.throws(() => readRange(header, 100), { code: 'InvalidRange' });
  });
}

test('range: a parsed range never exceeds the object', () => {
  fc.assert(
    fc.property(fc.nat(50), fc.nat(60), fc.integer({ min: 1, max: 50 }), (first, last, size) => {
      fc.pre(first < size);
      const range = readRange(`bytes=${first}-${last}`, size);
      if (range) assert.ok(range.start >= 0 && range.length > 0 && range.start + range.length <= size);
    }),
  );
});

test('copy range: it must be within the source', () => {
  assert.deepEqual(readCopyRange('bytes=5-9', 10), { start: 5, length: 5 });
  for (const header of ['bytes=5-10', 'bytes=5-', 'bytes=-5', 'bytes=6-5', 'x']) {
    assert.throws(() => readCopyRange(header, 10), { code: 'InvalidArgument' });
  }
});

const sources = [
  { header: 'bucket/key', source: { bucket: 'bucket', key: 'key' } },
  { header: '/bucket/in/a%20b', source: { bucket: 'bucket', key: 'in/a b' } },
  { header: 'bucket/100%', source: { bucket: 'bucket', key: '100%' } },
  { header: '/bucket//key?versionId=null', source: { bucket: 'bucket', key: '/key' } },
];
for (const { header, source } of sources) {
  test(`copy source: ${header} is ${source.key} in ${source.bucket}`, () => {
    assert.deepEqual(readCopySource(header), source);
  });
}

for (const header of ['', 'bucket', '/bucket/', '//key']) {
  test(`copy source: "${header}" is rejected`, () => {
    assert.throws(() => readCopySource(header), { code: 'InvalidArgument' });
  });
}
