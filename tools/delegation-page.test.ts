import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Candidate } from '../src/delegation/policies/policy.ts';
import { rank } from '../src/delegation/policies/rank.ts';
import { seededRandom } from '../test/support/seeded-random.ts';

/** The worked examples of `docs/delegation.md` are what the policies do. */

const page = readFileSync(join(import.meta.dirname, '..', 'docs', 'delegation.md'), 'utf8');
const GIB = 1024 ** 3;
const JOB = { cpu: 1000, memory: GIB, gpu: 0 };

const ROW = /^\| (\w) \| (\d+) \| (\d+) \| ([\d.]+) cores, (\d+) GiB \| (\d+) ms \| (\d+) \| (\d+) s \|$/gm;

const candidates = [...page.matchAll(ROW)].map(([, id = '', ...figures]): Candidate => {
  const [priority = 0, nodeCount = 0, cores = 0, gib = 0, roundTrip = 0, pending = 0, meanDuration = 0] =
    figures.map(Number);
  const node = { cpu: cores * 1000, memory: gib * GIB, gpu: 0 };
  return {
    member: `${id}/cow`,
    type: 'oscar',
    isSelf: false,
    priority,
    snapshot: {
      nodes: Array.from({ length: nodeCount }, () => node),
      freeCpu: nodeCount * node.cpu,
      nodeCount,
      age: 0,
      roundTrip,
      pending,
      meanDuration,
    },
    inFlight: { cpu: 0, memory: 0, gpu: 0 },
  };
});

/** `a 0`, `b 1`, as the policy puts those that can take the job. */
function scores(policy: string, chance = () => 0): string[] {
  return rank({ policy, weights: { a: 1, b: 3 } }, candidates, JOB, chance).flatMap(({ candidate, score }) =>
    score === undefined ? [] : [`${candidate.member[0]} ${Math.round(score * 100) / 100}`],
  );
}

/** What the page says of a policy. */
const said = (policy: string) => page.split(`### ${policy}\n`)[1]?.split('\n#')[0] ?? '';

test('the example has four members', () => assert.equal(candidates.length, 4));

test('who has no node for the job is told so in the words of the page', () => {
  const [refused] = rank({ policy: 'static' }, candidates, JOB, Math.random).filter(({ refusal }) => refusal);
  assert.equal(refused?.candidate.member, 'd/cow');
  assert.ok(page.includes(`\`${refused.refusal}\``));
});

test('static', () => {
  assert.deepEqual(scores('static'), ['a 0', 'b 1', 'c 2']);
  assert.match(said('static'), /\*\*a\*\*, then b, then c/);
});

test('random', () => {
  const random = seededRandom(1);
  const firsts = Array.from({ length: 10_000 }, () => scores('random', random)[0]?.[0]);
  const fifths = (id: string) => Math.round((firsts.filter((first) => first === id).length / firsts.length) * 50) / 10;
  assert.deepEqual([fifths('a'), fifths('b'), fifths('c')], [1, 3, 1]);
  assert.match(said('random'), /b is first in 3 of 5 jobs, a in 1, c in 1/);
});

test('load-based', () => {
  assert.deepEqual(scores('load-based'), ['b 50', 'c 62.5', 'a 93.75']);
  assert.match(said('load-based'), /b has 16 cores: 50\. c has 12: 62\.5\. a has 2: 93\.75/);
});

test('topsis', () => {
  assert.deepEqual(scores('topsis').toSorted(), ['a 88.89', 'b 11.03', 'c 27.88']);
  assert.match(said('topsis'), /b 11\.0, c 27\.9, a 88\.9/);
  const firsts = new Set([0, 0.99].map((point) => scores('topsis', () => point)[0]?.[0]));
  assert.deepEqual(firsts, new Set(['b', 'c']));
});

test('fastest', () => {
  assert.deepEqual(scores('fastest'), ['c 9', 'b 11.88', 'a 12']);
  assert.match(said('fastest'), /c has no waiting jobs: 9 s\. b has 3 jobs .* 11\.88 s\. a: 12 s/);
});
