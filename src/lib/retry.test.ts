import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backoffDelay } from './retry.ts';

test('backoff: the wait doubles with each failure up to the longest, with jitter over its upper half', () => {
  const limits = { first: 100, longest: 1_000 };
  const range = (failures: number) => [backoffDelay(failures, limits, 0), backoffDelay(failures, limits, 1)];
  assert.deepEqual([0, 1, 2, 4, 5, 2_000].map(range), [
    [0, 0],
    [50, 100],
    [100, 200],
    [400, 800],
    [500, 1_000],
    [500, 1_000],
  ]);
});
