import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RateLimiter } from './api.ts';

test('rate limit: a burst passes at once, later requests at the sustained rate', () => {
  let now = 1_000;
  const limiter = new RateLimiter({ perSecond: 10, burst: 3 }, () => now);
  const delays = () => Array.from({ length: 5 }, () => limiter.reserve());
  assert.deepEqual(delays(), [0, 0, 0, 100, 200]);
  now += 10_000;
  assert.deepEqual(delays(), [0, 0, 0, 100, 200]);
  now += 300;
  assert.deepEqual(delays().slice(0, 2), [0, 100]);
});

test('rate limit: the total wait is counted', async () => {
  const limiter = new RateLimiter({ perSecond: 1_000, burst: 1 });
  for (let i = 0; i < 5; i++) await limiter.wait();
  assert.ok(limiter.waitedMs > 0);
});
