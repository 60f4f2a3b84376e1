import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { reconcileBackoff, spread } from './reconcile.ts';

test('who has not failed does not wait', () => assert.equal(reconcileBackoff(0, 0.9), 0));

test('the wait doubles, up to a quarter of an hour', () => {
  assert.deepEqual(
    [1, 2, 3, 9, 50].map((failures) => reconcileBackoff(failures, 0)),
    [2_500, 5_000, 10_000, 450_000, 450_000],
  );
});

test('an interval is a tenth shorter to a tenth longer', () => {
  assert.deepEqual(
    [0, 0.5, 1].map((chance) => Math.round(spread(60_000, chance))),
    [54_000, 60_000, 66_000],
  );
});

test('chance spreads waits over half of their length, whatever the failures', () => {
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
