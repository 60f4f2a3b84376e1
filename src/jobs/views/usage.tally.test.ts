import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { byService, byUser, tally, type VisibleRow } from './usage.ts';

const row = (more: Partial<VisibleRow> = {}): VisibleRow => ({
  service: 'demo',
  invoker: 'alice',
  trigger: 'job',
  jobs: 1,
  cpuSeconds: 0,
  gpuSeconds: 0,
  named: true,
  ...more,
});

test('usage: no rows give zeros', () => {
  const nothing = { requests: 0, sync: 0, async: 0, cpuHours: 0, gpuHours: 0, users: 0, names: [] };
  assert.deepEqual(tally([]), nothing);
  assert.deepEqual([byService([]), byUser([])], [[], []]);
});

test('usage: only /run calls count as synchronous', () => {
  const { requests, sync, async } = tally([
    row({ trigger: 'run', jobs: 2 }),
    row({ trigger: 'job', jobs: 3 }),
    row({ trigger: 'storage', jobs: 4 }),
  ]);
  assert.deepEqual([requests, sync, async], [9, 2, 7]);
});

test('usage: hours are rounded', () => {
  const { cpuHours, gpuHours } = tally([
    row({ cpuSeconds: 360, gpuSeconds: 3_600 }),
    row({ cpuSeconds: 720, gpuSeconds: 1_800 }),
  ]);
  assert.equal(0.1 + 0.2, 0.30000000000000004);
  assert.deepEqual([cpuHours, gpuHours], [0.3, 1.5]);
});

test('usage: a user counts once, and unknown users count as one named nil', () => {
  const { users, names } = tally([
    row({ invoker: 'bob' }),
    row({ invoker: '' }),
    row({ invoker: 'alice', trigger: 'run' }),
    row({ invoker: '', service: 'other' }),
    row({ invoker: 'alice' }),
  ]);
  assert.equal(users, 3);
  assert.deepEqual(names, ['alice', 'bob', 'nil']);
});

test('usage: hidden users are counted and not named', () => {
  const rows = [row(), row({ invoker: 'bob', named: false, jobs: 5 })];
  const { requests, users, names } = tally(rows);
  assert.deepEqual([requests, users, names], [6, 2, ['alice']]);
  assert.deepEqual(
    byUser(rows).map(({ user }) => user),
    ['alice'],
  );
  assert.doesNotMatch(JSON.stringify([tally(rows), byService(rows), byUser(rows)]), /bob/);
});

test('usage: a user that may be named for one service only is listed for that one', () => {
  const rows = [row({ invoker: 'bob', jobs: 2 }), row({ invoker: 'bob', service: 'other', named: false, jobs: 5 })];
  assert.deepEqual(
    byUser(rows).map(({ user, tally: { requests } }) => [user, requests]),
    [['bob', 2]],
  );
});

test('usage: the tallies by service and by user add up to the whole and are sorted (R24, K8)', () => {
  const rows: fc.Arbitrary<VisibleRow[]> = fc.array(
    fc.record({
      service: fc.constantFrom('a', 'b', 'B', 'é'),
      invoker: fc.constantFrom('', 'alice', 'bob'),
      trigger: fc.constantFrom('storage', 'job', 'run'),
      jobs: fc.nat(1000),
      cpuSeconds: fc.nat(100_000),
      gpuSeconds: fc.constant(0),
      named: fc.constant(true),
    }),
  );
  fc.assert(
    fc.property(rows, (all) => {
      const whole = tally(all);
      assert.equal(whole.sync + whole.async, whole.requests);
      assert.equal(whole.users, whole.names.length);
      for (const parts of [byService(all), byUser(all)]) {
        assert.equal(
          parts.reduce((sum, part) => sum + part.tally.requests, 0),
          whole.requests,
        );
      }
      const services = byService(all).map(({ service }) => service);
      assert.deepEqual(services, [...new Set(all.map(({ service }) => service))].toSorted());
    }),
  );
});
