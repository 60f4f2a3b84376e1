import assert from 'node:assert/strict';
import { test } from 'node:test';
import { splitParts } from './multipart.ts';

for (const size of [1, 8 * 1024 * 1024, 8 * 1024 * 1024 + 1, 5 * 1024 ** 4]) {
  test(`upload: ${size} bytes are split into parts without gaps, and into no more than S3 allows`, () => {
    const parts = splitParts(size);
    assert.ok(parts.length <= 10_000);
    assert.equal(parts[0]?.begin, 0);
    assert.equal(parts.at(-1)?.end, size);
    for (const [index, { number, begin }] of parts.entries()) {
      assert.equal(number, index + 1);
      assert.equal(begin, parts[index - 1]?.end ?? 0);
    }
  });
}
