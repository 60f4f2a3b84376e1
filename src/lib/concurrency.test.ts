import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Slots } from './concurrency.ts';

test('no more than so many at once, in order, and a failure frees its slot', async () => {
  const slots = new Slots(2);
  const begun: number[] = [];
  let now = 0;
  let most = 0;
  const work = (n: number) => async () => {
    begun.push(n);
    most = Math.max(most, ++now);
    await turn();
    now--;
    if (n % 2 === 1) throw new Error('failed');
  };
  await Promise.allSettled(Array.from({ length: 7 }, (_, n) => slots.use(work(n))));
  assert.deepEqual(begun, [0, 1, 2, 3, 4, 5, 6]);
  assert.equal(most, 2);
});
