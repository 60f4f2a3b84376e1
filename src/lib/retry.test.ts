import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backoffDelay, jitter } from './retry.ts';

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

test('backoff: without a random number there is no jitter', () => {
  const limits = { first: 100, longest: 1_000 };
  assert.deepEqual(
    [1, 2, 5].map((failures) => backoffDelay(failures, limits)),
    [100, 200, 1_000],
  );
});

test('jitter: it is half to one and a half times the wait', () => {
  assert.deepEqual([jitter(100, 0), jitter(100, 0.5), jitter(100, 1)], [50, 100, 150]);
});
