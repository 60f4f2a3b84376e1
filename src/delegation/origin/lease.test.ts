import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { expiredLeases, type Leased, LONGEST_DOUBT } from './lease.ts';

const TERMS = { lease: 90, grace: 60 };
const NOW = 10_000_000;

/** Attempts by cluster, with the seconds since their last report. */
const silent = (...attempts: [string, number][]): Leased[] =>
  attempts.map(([cluster, since]) => ({ cluster, heardAt: NOW - since }));

const cases: { name: string; attempts: Leased[]; expired: number[] }[] = [
  { name: 'lease: no attempts', attempts: [], expired: [] },
  { name: 'lease: silence up to lease and grace is allowed', attempts: silent(['b', 150]), expired: [] },
  { name: 'lease: longer silence expires the lease', attempts: silent(['b', 151]), expired: [151] },
  {
    name: 'lease: one silent cluster does not extend leases',
    attempts: silent(['b', 151], ['b', 160]),
    expired: [151, 160],
  },
  {
    name: 'lease: while another cluster reports, the lease of the silent one expires',
    attempts: silent(['b', 151], ['c', 90]),
    expired: [151],
  },
  {
    name: 'lease: if all clusters fall silent within one lease, leases are extended',
    attempts: silent(['b', 180], ['c', 91]),
    expired: [],
  },
  {
    name: 'lease: if they fall silent one after the other, leases expire',
    attempts: silent(['b', 300], ['c', 151]),
    expired: [300, 151],
  },
  {
    name: 'lease: the last report of a cluster about any attempt counts',
    attempts: silent(['b', 300], ['b', 151], ['c', 160]),
    expired: [],
  },
  {
    name: 'lease: the extension is limited',
    attempts: silent(['b', 151 + LONGEST_DOUBT], ['c', 150 + LONGEST_DOUBT]),
    expired: [151 + LONGEST_DOUBT],
  },
];

for (const each of cases) {
  test(each.name, () => {
    assert.deepEqual(
      expiredLeases(each.attempts, NOW, TERMS).map(({ heardAt }) => NOW - heardAt),
      each.expired,
    );
  });
}

test('lease: no attempt expires within lease and grace, all expire after the longest extension, and an expired one stays expired', () => {
  const attempts = fc.array(
    fc.record({
      cluster: fc.constantFrom('b', 'c', 'd'),
      heardAt: fc.integer({ min: NOW - 2 * LONGEST_DOUBT, max: NOW }),
    }),
    { maxLength: 8 },
  );
  fc.assert(
    fc.property(attempts, fc.nat(2 * LONGEST_DOUBT), (all, later) => {
      const ended = new Set(expiredLeases(all, NOW, TERMS));
      for (const attempt of all) {
        const since = NOW - attempt.heardAt;
        if (since <= 150) assert.ok(!ended.has(attempt));
        if (since > 150 + LONGEST_DOUBT) assert.ok(ended.has(attempt));
        // While any cluster reports, the lease of a silent one is not extended.
        const isHeard = all.some(({ heardAt }) => NOW - heardAt <= 90);
        if (isHeard && since > 150) assert.ok(ended.has(attempt));
      }
      const next = new Set(expiredLeases(all, NOW + later + LONGEST_DOUBT, TERMS));
      for (const attempt of ended) assert.ok(next.has(attempt));
    }),
  );
});
