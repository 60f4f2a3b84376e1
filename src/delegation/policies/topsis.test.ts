import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '../../../test/support/seeded-random.ts';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import { clusterWith, GiB, memberOn, NOTHING, namesIn, never, SMALL } from './candidate.fixture.ts';
import type { Candidate } from './policy.ts';
import { rank } from './rank.ts';

const byTopsis = (given: readonly Candidate[], random = never) => rank({ policy: 'topsis' }, given, SMALL, random);

const scoresOf = (given: readonly Candidate[]) =>
  Object.fromEntries(
    byTopsis(given).map(({ candidate, score = Number.NaN }) => [candidate.member[0], Math.round(score * 100) / 100]),
  );

const memory = (bytes: number) => ({ nodes: [{ cpu: 8000, memory: bytes, gpu: 0 }] });

/** Two members that differ in one criterion only: the better one scores 0, the other 100. */
const criteria: { name: string; better: Partial<Snapshot>; worse: Partial<Snapshot> }[] = [
  { name: 'a shorter round trip', better: { roundTrip: 10 }, worse: { roundTrip: 11 } },
  { name: 'more nodes', better: { nodeCount: 3 }, worse: { nodeCount: 2 } },
  { name: 'more free memory', better: memory(4 * GiB), worse: memory(2 * GiB) },
  { name: 'more free CPU', better: { freeCpu: 8000 }, worse: { freeCpu: 7999 } },
  { name: 'shorter jobs', better: { meanDuration: 3 }, worse: { meanDuration: 4 } },
  { name: 'fewer waiting jobs', better: { pending: 0 }, worse: { pending: 1 } },
];
for (const { name, better, worse } of criteria) {
  test(`topsis: ${name} is better, all else being equal`, () => {
    const given = [
      memberOn('a', { snapshot: clusterWith([8], worse) }),
      memberOn('b', { snapshot: clusterWith([8], better) }),
    ];
    assert.deepEqual(namesIn(byTopsis(given)), ['b', 'a']);
    assert.deepEqual(scoresOf(given), { b: 0, a: 100 });
  });
}

test('topsis: jobs in flight reduce free CPU and free memory', () => {
  const given = [memberOn('a', { inFlight: { ...NOTHING, cpu: 1 } }), memberOn('b')];
  assert.deepEqual(scoresOf(given), { a: 100, b: 0 });
  const other = [memberOn('a', { inFlight: { ...NOTHING, memory: 1 } }), memberOn('b')];
  assert.deepEqual(scoresOf(other), { a: 100, b: 0 });
});

// Both columns are 3:4, so 0.6 and 0.8 of their weight. CPU: 39 and 52, nodes: 6.4 and 4.8. A is 1.6 from the best and
// 13 from the worst, and the other way round for B.
test('topsis: free CPU has weight 65 and nodes have weight 8', () => {
  const given = [
    memberOn('a', { snapshot: clusterWith([4], { nodeCount: 3 }) }),
    memberOn('b', { snapshot: clusterWith([3], { nodeCount: 4 }) }),
  ];
  assert.deepEqual(scoresOf(given), { a: 10.96, b: 89.04 });
});

// The same with 0.2 of each weight between the two: 100 · x / (x + y).
const pairs: { name: string; a: Partial<Snapshot>; b: Partial<Snapshot>; score: number }[] = [
  {
    name: 'memory 18, round trip 1',
    a: { ...memory(4), roundTrip: 4 },
    b: { ...memory(3), roundTrip: 3 },
    score: 100 / 19,
  },
  {
    name: 'memory 18, duration 2',
    a: { ...memory(4), meanDuration: 4 },
    b: { ...memory(3), meanDuration: 3 },
    score: 200 / 20,
  },
  {
    name: 'memory 18, waiting 6',
    a: { ...memory(4), pending: 3.9 },
    b: { ...memory(3), pending: 2.9 },
    score: 600 / 24,
  },
];
for (const { name, a, b, score } of pairs) {
  test(`topsis: weights: ${name}`, () => {
    const tiny = { cpu: 0, memory: 0, gpu: 0 };
    const given = [memberOn('a', { snapshot: clusterWith([8], a) }), memberOn('b', { snapshot: clusterWith([8], b) })];
    const found = rank({ policy: 'topsis' }, given, tiny, never).find(({ candidate }) => candidate === given[0]);
    assert.ok(Math.abs((found?.score ?? Number.NaN) - score) < 1e-9, String(found?.score));
  });
}

test('topsis: a single member has the best score (F2)', () => {
  assert.deepEqual(scoresOf([memberOn('a')]), { a: 0 });
});

test('topsis: equal members all have the best score (F2)', () => {
  assert.deepEqual(scoresOf([memberOn('a'), memberOn('b'), memberOn('c')]), { a: 0, b: 0, c: 0 });
});

test('topsis: members whose figures are all zero are equal (F2)', () => {
  const zeros = { nodes: [NOTHING], freeCpu: 0, nodeCount: 0, age: 0, roundTrip: 0, meanDuration: 0, pending: 0 };
  const given = [memberOn('a', { snapshot: zeros }), memberOn('b', { snapshot: zeros })];
  const scores = rank({ policy: 'topsis' }, given, NOTHING, never).map(({ score }) => score);
  assert.deepEqual(scores, [0, 0]);
});

test('topsis: a missing round trip or queue length counts as the worst of the others', () => {
  for (const key of ['roundTrip', 'pending'] as const) {
    const { [key]: _, ...silent } = clusterWith([8]);
    const given = [
      memberOn('a', { snapshot: silent }),
      memberOn('b', { snapshot: clusterWith([8], { [key]: 1 }) }),
      memberOn('c', { snapshot: clusterWith([8], { [key]: 2 }) }),
    ];
    assert.deepEqual(scoresOf(given), { b: 0, a: 100, c: 100 });
  }
});

test('topsis: without ended jobs the duration counts as very long', () => {
  const { meanDuration: _, ...fresh } = clusterWith([8]);
  const given = [
    memberOn('a', { snapshot: fresh }),
    memberOn('b', { snapshot: clusterWith([8], { meanDuration: 86_400 }) }),
  ];
  assert.deepEqual(scoresOf(given), { b: 0, a: 100 });
});

test('topsis: the order of members within 20 % of the best is random, the others follow by score', () => {
  const random = seededRandom(11);
  const given = [20, 100, 95, 40, 98].map((cores) => memberOn(String(cores), { snapshot: clusterWith([cores]) }));
  const orders = Array.from({ length: 300 }, () => namesIn(byTopsis(given, random)));
  for (const order of orders) {
    assert.deepEqual(order.slice(0, 3).toSorted(), ['100', '95', '98']);
    assert.deepEqual(order.slice(3), ['40', '20']);
  }
  for (const name of ['100', '95', '98']) {
    const times = orders.filter(([first]) => first === name).length;
    assert.ok(times > 60 && times < 140, `${name} came first ${times} times`);
  }
});
