import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusterWith, memberOn, never, SMALL } from './candidate.fixture.ts';
import { toDecisionRecord } from './decision.ts';
import { rank } from './rank.ts';

const many = rank(
  {},
  Array.from({ length: 14 }, (_, index) => memberOn(`c${index}`, { priority: index })),
  SMALL,
  never,
);

const keptWith = (chosen: string | undefined) =>
  toDecisionRecord('static', many, chosen, 1).candidates.map(({ member }) => member);

const firstOf = (count: number) => Array.from({ length: count }, (_, index) => `c${index}/demo`);

test('decision: the record has the figures of each candidate and the chosen one', () => {
  const given = [
    memberOn('a', { snapshot: clusterWith([0.5], { age: 4_400 }) }),
    memberOn('b', { snapshot: clusterWith([7.0007]) }),
    memberOn('c', { snapshot: undefined }),
    memberOn('d', { snapshot: clusterWith([4]), isSelf: true }),
    memberOn('e', { snapshot: clusterWith([64], { age: 90_000 }) }),
  ];
  const rankings = rank({ policy: 'load-based' }, given, SMALL, never);
  assert.deepEqual(toDecisionRecord('load-based', rankings, 'b/demo', 1234), {
    at: 1234,
    policy: 'load-based',
    chosen: 'b/demo',
    candidates: [
      { member: 'b/demo', score: 78.12, age: 0 },
      { member: 'd/demo', score: 87.5 },
      { member: 'c/demo' },
      { member: 'e/demo', age: 90 },
      { member: 'a/demo', refusal: 'it needs 1 core and no node has more than 0.5 free', age: 4 },
    ],
  });
});

test('decision: without a choice the record has no `chosen`', () => {
  assert.deepEqual(toDecisionRecord(undefined, [], undefined, 5), { at: 5, policy: 'static', candidates: [] });
});

test('decision: the ten best candidates are kept', () => assert.deepEqual(keptWith('c0/demo'), firstOf(10)));

test('decision: the tenth candidate is one of the ten best', () => assert.deepEqual(keptWith('c9/demo'), firstOf(10)));

test('decision: a chosen candidate further down replaces the last one', () => {
  assert.deepEqual(keptWith('c10/demo'), [...firstOf(9), 'c10/demo']);
  assert.deepEqual(keptWith('c13/demo'), [...firstOf(9), 'c13/demo']);
});

test('decision: a choice that is no candidate changes nothing', () => {
  assert.deepEqual(keptWith('elsewhere/demo'), firstOf(10));
  assert.deepEqual(keptWith(undefined), firstOf(10));
});
