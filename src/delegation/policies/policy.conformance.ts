import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { seededRandom } from '../../../test/support/seeded-random.ts';
import { deepFreeze } from '../../lib/json.ts';
import { candidates, demands } from './candidate.arbitrary.ts';
import { clusterWith, memberOn, namesIn, never, SMALL } from './candidate.fixture.ts';
import { STALE } from './free-capacity.ts';
import type { Candidate, Ranking } from './policy.ts';
import { type PolicyChoice, rank } from './rank.ts';

const seeds = fc.integer();

/** What every policy guarantees. */
export function describePolicy(name: string, choice: PolicyChoice): void {
  const everyRanking = (check: (rankings: readonly Ranking[], given: readonly Candidate[]) => void) =>
    fc.assert(
      fc.property(candidates, demands, seeds, (given, demand, seed) => {
        check(rank(choice, given, demand, seededRandom(seed)), given);
      }),
    );

  describe(`policy: ${name}`, () => {
    test('policy: every candidate is in the ranking once', () => {
      everyRanking((rankings, given) => {
        assert.equal(rankings.length, given.length);
        assert.deepEqual(new Set(rankings.map(({ candidate }) => candidate)), new Set(given));
      });
    });

    test('policy: excluded candidates come last, each with a reason', () => {
      everyRanking((rankings) => {
        const refusals = rankings.map(({ refusal }) => refusal);
        const first = refusals.findIndex((refusal) => refusal !== undefined);
        if (first === -1) return;
        for (const refusal of refusals.slice(first)) assert.match(refusal ?? '', /^(it|its|no) .+/);
      });
    });

    test('policy: every score is a number between the best and the worst', () => {
      everyRanking((rankings) => {
        // Seconds have no largest value.
        const worst = choice.policy === 'fastest' ? Number.MAX_VALUE : 100;
        for (const { score = 0 } of rankings) assert.ok(score >= 0 && score <= worst, String(score));
      });
    });

    test('policy: candidates without a score come after those with one', () => {
      everyRanking((rankings) => {
        const scores = rankings.filter(({ refusal }) => refusal === undefined).map(({ score }) => score);
        const first = scores.indexOf(undefined);
        if (first !== -1) assert.ok(scores.slice(first).every((score) => score === undefined));
      });
    });

    test('policy: a member is never chosen when a fresh snapshot shows no node with room for the job', () => {
      fc.assert(
        fc.property(candidates, demands, seeds, (given, demand, seed) => {
          const full = given.map((each) => withNodesBelow(each, demand.cpu));
          for (const { candidate, refusal } of rank(choice, full, demand, seededRandom(seed))) {
            if (candidate.type === 'oscar' && demand.cpu > 0) assert.notEqual(refusal, undefined);
          }
        }),
      );
    });

    test('policy: a member is not refused when a fresh snapshot shows a node with exactly enough', () => {
      fc.assert(
        fc.property(demands, (demand) => {
          const exact = { nodes: [demand], freeCpu: demand.cpu, nodeCount: 1, age: STALE };
          const [first] = rank(choice, [memberOn('a', { snapshot: exact })], demand, never);
          assert.equal(first?.refusal, undefined);
        }),
      );
    });

    test('policy: an outdated snapshot excludes no candidate, and neither does one of an endpoint', () => {
      const full = clusterWith([0]);
      const given = [
        memberOn('fresh', { snapshot: { ...full, age: STALE } }),
        memberOn('old', { snapshot: { ...full, age: STALE + 1 } }),
        memberOn('unknown', { snapshot: undefined }),
        memberOn('endpoint', { snapshot: full, type: 'endpoint' }),
      ];
      const refused = rank(choice, given, SMALL, never).filter(({ refusal }) => refusal !== undefined);
      assert.deepEqual(namesIn(refused), ['fresh']);
    });

    test('policy: a member with a priority above 100 is never used', () => {
      const given = [memberOn('never', { priority: 101 }), memberOn('last', { priority: 100 })];
      const [first, second] = rank(choice, given, SMALL, never);
      assert.equal(first?.candidate.member, 'last/demo');
      assert.match(second?.refusal ?? '', /priority is 101/);
    });

    test('policy: the input is not modified', () => {
      fc.assert(
        fc.property(candidates, demands, seeds, (given, demand, seed) => {
          rank(deepFreeze(structuredClone(choice)), deepFreeze(given), deepFreeze(demand), seededRandom(seed));
        }),
      );
    });

    test('policy: the same random numbers give the same order', () => {
      fc.assert(
        fc.property(candidates, demands, seeds, (given, demand, seed) => {
          const again = () => rank(choice, given, demand, seededRandom(seed));
          assert.deepEqual(again(), again());
        }),
      );
    });

    test('policy: an empty list of candidates is no error', () => {
      assert.deepEqual(rank(choice, [], SMALL, never), []);
    });
  });
}

/** The candidate with a fresh snapshot of two nodes that each have one millicore too little. */
function withNodesBelow(candidate: Candidate, millicores: number): Candidate {
  const tooSmall = { cpu: millicores - 1, memory: 2 ** 40, gpu: 8 };
  const snapshot = { nodes: [tooSmall, tooSmall], freeCpu: 2 * millicores, nodeCount: 2, age: 0 };
  return { ...candidate, snapshot };
}
