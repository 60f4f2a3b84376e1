import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { reconcileBackoff, spread } from './reconcile.ts';

test('backoff: a member that has not failed does not wait', () => assert.equal(reconcileBackoff(0, 0.9), 0));

test('backoff: the wait doubles, up to 15 minutes', () => {
  assert.deepEqual(
    [1, 2, 3, 9, 50].map((failures) => reconcileBackoff(failures, 0)),
    [2_500, 5_000, 10_000, 450_000, 450_000],
  );
});

test('backoff: intervals vary by ten per cent', () => {
  assert.deepEqual(
    [0, 0.5, 1].map((chance) => Math.round(spread(60_000, chance))),
    [54_000, 60_000, 66_000],
  );
});

test('backoff: jitter spreads waits over half of their length after any number of failures', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 2000 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (failures, chance) => {
        const least = reconcileBackoff(failures, 0);
        const wait = reconcileBackoff(failures, chance);
        assert.ok(wait >= least && wait < 2 * least && least <= 450_000);
      },
    ),
  );
});
