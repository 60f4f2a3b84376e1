import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { seededRandom } from '../../../test/support/seeded-random.ts';
import { candidates, demands } from './candidate.arbitrary.ts';
import { clusterWith, memberOn, NOTHING, namesIn, never, SMALL } from './candidate.fixture.ts';
import { isKnown } from './free-capacity.ts';
import type { Candidate } from './policy.ts';
import { rank } from './rank.ts';

const byLoad = (given: readonly Candidate[], demand = SMALL, random = never) =>
  rank({ policy: 'load-based' }, given, demand, random);

test('load-based: the member with the most free CPU is first', () => {
  const given = [memberOn('a', { snapshot: clusterWith([1]) }), memberOn('b', { snapshot: clusterWith([8]) })];
  assert.deepEqual(namesIn(byLoad(given)), ['b', 'a']);
});

test('load-based: jobs sent since the snapshot count as used', () => {
  const given = [memberOn('a', { inFlight: { ...SMALL, cpu: 3000 } }), memberOn('b', { snapshot: clusterWith([6]) })];
  assert.deepEqual(namesIn(byLoad(given)), ['b', 'a']);
});

const scores: [cores: number, score: number][] = [
  [0, 100],
  [8, 75],
  [16, 50],
  [32, 0],
  [64, 0],
];
for (const [cores, score] of scores) {
  test(`load-based: with ${cores} free cores the score is ${score}`, () => {
    const [only] = byLoad([memberOn('a', { snapshot: clusterWith([cores]) })], NOTHING);
    assert.equal(only?.score, score);
  });
}

test('load-based: the order of members with equal free CPU is random', () => {
  const random = seededRandom(3);
  const given = [memberOn('a', { snapshot: clusterWith([40]) }), memberOn('b', { snapshot: clusterWith([99]) })];
  const first = Array.from({ length: 100 }, () => namesIn(byLoad(given, SMALL, random))[0]);
  const times = first.filter((name) => name === 'a').length;
  assert.ok(times > 25 && times < 75, String(times));
});

test('load-based: more free CPU never makes the rank of a member worse', () => {
  fc.assert(
    fc.property(candidates, demands, fc.nat(), fc.nat(20_000), fc.integer(), (given, demand, pick, more, seed) => {
      const before = given.filter(isKnown)[pick % Math.max(1, given.filter(isKnown).length)];
      if (!before) return;
      const { snapshot } = before;
      const nodes = snapshot.nodes.map((node, index) => (index === 0 ? { ...node, cpu: node.cpu + more } : node));
      const after = { ...before, snapshot: { ...snapshot, nodes, freeCpu: snapshot.freeCpu + more } };
      if (!isKnown(after)) return;

      const place = (list: readonly Candidate[], one: Candidate) =>
        byLoad(list, demand, seededRandom(seed)).findIndex(({ candidate }) => candidate === one);
      const changed = given.map((each) => (each === before ? after : each));
      assert.ok(place(changed, after) <= place(given, before));
    }),
  );
});
