import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backoff } from './api.ts';

test('backoff: waits double up to the longest, and half of each is random', () => {
  const range = (repetition: number) => [backoff(repetition, () => 0), backoff(repetition, () => 1)];
  assert.deepEqual(range(0), [25, 50]);
  assert.deepEqual(range(3), [200, 400]);
  assert.deepEqual(range(1_000), [15_000, 30_000]);
  assert.equal(
    backoff(9, () => 1, 1_000),
    1_000,
  );
});
