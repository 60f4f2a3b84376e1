import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusterWith, memberOn, namesIn, never, SMALL } from './candidate.fixture.ts';
import { STALE } from './free-capacity.ts';
import type { Candidate } from './policy.ts';
import { rank } from './rank.ts';

const full = clusterWith([0.5]);
const endpoint = (url: string, others: Partial<Candidate> = {}) =>
  memberOn(url, { member: url, type: 'endpoint', ...others });

const cases: { name: string; policy?: string; given: Candidate[]; order: string[] }[] = [
  {
    name: 'static: the lowest priority is first, and equals keep their order',
    policy: 'static',
    given: [memberOn('c', { priority: 2 }), memberOn('b', { priority: 1 }), memberOn('a', { priority: 1 })],
    order: ['b', 'a', 'c'],
  },
  {
    name: 'static: the origin is first among equals, and only among them',
    policy: 'static',
    given: [memberOn('a'), memberOn('b', { priority: 1 }), memberOn('self', { priority: 1, isSelf: true })],
    order: ['a', 'self', 'b'],
  },
  {
    name: 'static: a member without a snapshot keeps the position of its priority',
    policy: 'static',
    given: [memberOn('b', { priority: 1 }), memberOn('a', { snapshot: undefined })],
    order: ['a', 'b'],
  },
  {
    name: 'static: a member without free capacity is last, whatever its priority',
    policy: 'static',
    given: [memberOn('full', { snapshot: full }), memberOn('a', { priority: 100 })],
    order: ['a', 'full'],
  },
  {
    name: 'static: the default policy',
    given: [memberOn('b', { priority: 1, snapshot: clusterWith([32]) }), memberOn('a')],
    order: ['a', 'b'],
  },
  {
    name: 'static: also used for an unknown policy name',
    policy: 'cheapest',
    given: [memberOn('b', { priority: 1, snapshot: clusterWith([32]) }), memberOn('a')],
    order: ['a', 'b'],
  },
  ...['load-based', 'topsis'].map((policy) => ({
    name: `${policy}: first candidates with snapshots, then those without by priority, then the excluded`,
    policy,
    given: [
      memberOn('full', { snapshot: full }),
      memberOn('old', { priority: 2, snapshot: clusterWith([32], { age: STALE + 1 }) }),
      endpoint('https://any.example/', { priority: 1, snapshot: clusterWith([32]) }),
      memberOn('unknown', { priority: 0, snapshot: undefined }),
      memberOn('strange', { priority: 3, snapshot: clusterWith([Number.NaN]) }),
      memberOn('slow', { priority: 7, snapshot: clusterWith([2]) }),
      memberOn('idle', { priority: 9, snapshot: clusterWith([16]) }),
    ],
    order: ['idle', 'slow', 'unknown', 'https://any.example/', 'old', 'strange', 'full'],
  })),
  ...['load-based', 'topsis'].map((policy) => ({
    name: `${policy}: candidates without snapshots and of equal priority are ordered by what was sent to them`,
    policy,
    given: [
      endpoint('https://any.example/'),
      memberOn('busy', { snapshot: undefined, inFlight: { ...SMALL, cpu: 2000 } }),
      memberOn('first', { snapshot: undefined, inFlight: SMALL }),
      memberOn('second', { snapshot: undefined, inFlight: SMALL }),
      memberOn('later', { priority: 1, snapshot: undefined }),
    ],
    order: ['first', 'second', 'busy', 'https://any.example/', 'later'],
  })),
];

for (const { name, policy, given, order } of cases) {
  test(name, () => assert.deepEqual(namesIn(rank({ policy }, given, SMALL, never)), order));
}

test('rank: the score of static is the priority; candidates without a snapshot have no score where snapshots count', () => {
  const given = [memberOn('a', { priority: 4, snapshot: undefined })];
  assert.deepEqual(rank({}, given, SMALL, never), [{ candidate: given[0], score: 4 }]);
  assert.deepEqual(rank({ policy: 'topsis' }, given, SMALL, never), [{ candidate: given[0] }]);
});
