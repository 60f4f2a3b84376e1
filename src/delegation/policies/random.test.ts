import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '../../../test/support/seeded-random.ts';
import { memberOn, namesIn, never } from './candidate.fixture.ts';
import type { Candidate, Weights } from './policy.ts';
import { orderRandomly, shuffle } from './random.ts';

const DRAWS = 20_000;

const members = (...names: string[]) => names.map((name) => memberOn(name));

/** Counts how often each order is drawn. */
function ordersOf(draw: (random: () => number) => readonly string[]): Map<string, number> {
  const random = seededRandom(7);
  const counts = new Map<string, number>();
  for (let round = 0; round < DRAWS; round++) {
    const order = draw(random).join('');
    counts.set(order, (counts.get(order) ?? 0) + 1);
  }
  return counts;
}

/** Chi-square test. With up to five degrees of freedom, one of a thousand seeds exceeds 20.5 by chance. */
function assertDistributed(counts: Map<string, number>, expected: Readonly<Record<string, number>>): void {
  assert.deepEqual([...counts.keys()].toSorted(), Object.keys(expected).toSorted());
  const deviation = Object.entries(expected).reduce((sum, [order, share]) => {
    const wanted = share * DRAWS;
    return sum + ((counts.get(order) ?? 0) - wanted) ** 2 / wanted;
  }, 0);
  assert.ok(deviation < 20.5, `deviation ${deviation}: ${JSON.stringify(Object.fromEntries(counts))}`);
}

const drawing = (given: readonly Candidate[], weights: Weights) =>
  ordersOf((random) => namesIn(orderRandomly(given, weights, random)));

/** The distribution of three candidates without weights, and of a shuffled list. */
const alike = { abc: 1 / 6, acb: 1 / 6, bac: 1 / 6, bca: 1 / 6, cab: 1 / 6, cba: 1 / 6 };

test('random: without weights all orders are equally likely', () => {
  assertDistributed(drawing(members('a', 'b', 'c'), {}), alike);
});

test('random: with weights, each candidate is drawn by its share of the remaining ones', () => {
  assertDistributed(drawing(members('a', 'b', 'c'), { a: 5, b: 3, c: 2 }), {
    abc: (5 / 10) * (3 / 5),
    acb: (5 / 10) * (2 / 5),
    bac: (3 / 10) * (5 / 7),
    bca: (3 / 10) * (2 / 7),
    cab: (2 / 10) * (5 / 8),
    cba: (2 / 10) * (3 / 8),
  });
});

test('random: a candidate without a weight counts as 1', () => {
  assertDistributed(drawing(members('a', 'b'), { a: 3 }), { ab: 3 / 4, ba: 1 / 4 });
});

test('random: the weight of a candidate takes precedence over that of its cluster', () => {
  assertDistributed(drawing([memberOn('a', { weight: 3 }), memberOn('b')], { a: 100 }), { ab: 3 / 4, ba: 1 / 4 });
});

test('random: weights of any size work', () => {
  const { MAX_VALUE } = Number;
  assertDistributed(drawing(members('a', 'b'), { a: MAX_VALUE, b: MAX_VALUE }), { ab: 1 / 2, ba: 1 / 2 });
  assertDistributed(drawing(members('a', 'b'), { a: Number.POSITIVE_INFINITY, b: MAX_VALUE }), {
    ab: 1 / 2,
    ba: 1 / 2,
  });
  assertDistributed(drawing(members('a', 'b'), { a: 3e-320, b: 1e-320 }), { ab: 3 / 4, ba: 1 / 4 });
});

test('random: candidates with weight 0 are drawn last, with equal probability', () => {
  const zero = { a: 0, b: 0, c: 1 };
  assertDistributed(drawing(members('a', 'b', 'c'), zero), { cab: 1 / 2, cba: 1 / 2 });
  for (const strange of [-1, Number.NaN]) {
    assertDistributed(drawing(members('a', 'c'), { a: strange, c: 1 }), { ca: 1 });
  }
});

test('random: a cluster named like a property of every object has no inherited weight', () => {
  assertDistributed(drawing(members('constructor', 'b'), { b: 3 }), { constructorb: 1 / 4, bconstructor: 3 / 4 });
});

test('random: the score is the position', () => {
  const scores = orderRandomly(members('a', 'b', 'c'), {}, seededRandom(1)).map(({ score }) => score);
  assert.deepEqual(scores, [0, 1, 2]);
});

test('random: the smallest random number draws a candidate with a weight', () => {
  const [first] = orderRandomly(members('zero', 'a'), { zero: 0 }, never);
  assert.equal(first?.candidate.member, 'a/demo');
});

test('random: the largest random number draws a candidate with a weight although sums are not exact', () => {
  const justBelowOne = 1 - Number.EPSILON / 2;
  for (let count = 2; count < 40; count++) {
    const given = Array.from({ length: count }, (_, index) => memberOn(`m${index}`, { weight: 0.1 + index / 7 }));
    const [first] = orderRandomly([...given, memberOn('zero', { weight: 0 })], {}, () => justBelowOne);
    assert.notEqual(first?.candidate.weight, 0);
  }
});

test('shuffle: all orders are equally likely', () => {
  assertDistributed(
    ordersOf((random) => shuffle(['a', 'b', 'c'], random)),
    alike,
  );
});
