import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { seededRandom } from '../../../test/support/seeded-random.ts';
import type { Demand } from '../../model/job/index.ts';
import { clusterWith, GiB, memberOn } from './candidate.fixture.ts';
import type { Candidate } from './policy.ts';
import { rank } from './rank.ts';

/** F16: many jobs are sent before the next snapshot. Returns how many each member gets; a job that fits nowhere is dropped. */
function send(jobs: number, demand: Demand, members: readonly Candidate[], seed = 1): number[] {
  const random = seededRandom(seed);
  const sent = members.map(() => 0);
  for (let job = 0; job < jobs; job++) {
    const now = members.map((member, index) => ({ ...member, inFlight: times(demand, sent[index] ?? 0) }));
    const [best] = rank({ policy: 'load-based' }, now, demand, random);
    if (!best || best.refusal !== undefined) continue;
    const index = now.findIndex((candidate) => candidate === best.candidate);
    sent[index] = (sent[index] ?? 0) + 1;
  }
  return sent;
}

const times = ({ cpu, memory, gpu }: Demand, count: number): Demand => ({
  cpu: cpu * count,
  memory: memory * count,
  gpu: gpu * count,
});

const withCores = (...cores: number[]) =>
  cores.map((each, index) => memberOn(`cluster-${index}`, { snapshot: clusterWith([each]) }));

const QUARTER: Demand = { cpu: 250, memory: GiB / 16, gpu: 0 };

test('spread: 200 jobs at once spread over the members in proportion to their free capacity', () => {
  const rooms = [32, 16, 8];
  const sent = send(200, QUARTER, withCores(...rooms));
  assert.equal(
    sent.reduce((sum, count) => sum + count),
    200,
  );
  for (const [index, room] of rooms.entries()) {
    const share = (200 * room) / 56;
    assert.ok(Math.abs((sent[index] ?? 0) - share) <= 6, `${sent.join()} where ${share} were due`);
  }
});

test('spread: idle members share the jobs', () => {
  const sent = send(200, QUARTER, withCores(100, 200, 300, 400));
  for (const count of sent) assert.ok(count > 25 && count < 75, sent.join());
});

test('spread: each member gets as many jobs as fit', () => {
  assert.deepEqual(send(300, QUARTER, withCores(32, 16, 8)), [128, 64, 32]);
});

test('spread: no member gets more jobs than fit, and no job is left that would fit', () => {
  const rooms = fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(rooms, fc.integer({ min: 100, max: 3000 }), fc.nat(60), fc.integer(), (cores, cpu, jobs, seed) => {
      const fitting = cores.map((each) => Math.floor((each * 1000) / cpu));
      const sent = send(jobs, { cpu, memory: 0, gpu: 0 }, withCores(...cores), seed);
      for (const [index, count] of sent.entries()) assert.ok(count <= (fitting[index] ?? 0));
      const total = (list: readonly number[]) => list.reduce((sum, count) => sum + count, 0);
      assert.equal(total(sent), Math.min(jobs, total(fitting)));
    }),
  );
});
