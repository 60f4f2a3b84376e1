import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Obstacle } from '../../ports/index.ts';
import { type Blocked, FairQueue, JobQueue, MAX_OVERTAKEN, type QueuedJob } from './queue.ts';

const job = (owner: string, id: string, cpu = 1): QueuedJob => ({
  key: { service: 's', id },
  owner,
  demand: { cpu, memory: 0, gpu: 0 },
});
/** Whoever is blocked waits for what is ours. */
const NOBODY: Blocked = { obstacleFor: () => 'ours', setAside: () => assert.fail('nobody is set aside') };

const ids = (queue: FairQueue, count: number, room = Number.POSITIVE_INFINITY) =>
  Array.from({ length: count }, () => queue.take(({ demand }) => demand.cpu <= room, NOBODY)?.key.id);

test('queue: jobs of one owner start in order', () => {
  const queue = new FairQueue();
  for (const id of ['1', '2', '3']) queue.add(job('alice', id));
  assert.deepEqual(ids(queue, 4), ['1', '2', '3', undefined]);
});

test('queue: one job of bob does not wait for a thousand of alice', () => {
  const queue = new FairQueue();
  for (let i = 0; i < 1000; i++) queue.add(job('alice', `a${i}`));
  queue.add(job('bob', 'b'));
  assert.deepEqual(ids(queue, 3), ['a0', 'b', 'a1']);
});

test('queue: a job without room blocks later jobs of its owner, and no others', () => {
  const queue = new FairQueue();
  queue.add(job('alice', 'large', 4));
  queue.add(job('alice', 'small'));
  queue.add(job('bob', 'b'));
  assert.deepEqual(ids(queue, 2, 2), ['b', undefined]);
  assert.deepEqual(ids(queue, 2, 4), ['large', 'small']);
});

test('queue: a large job is overtaken at most MAX_OVERTAKEN times', () => {
  const queue = new FairQueue();
  queue.add(job('alice', 'large', 4));
  for (let i = 0; i < 2 * MAX_OVERTAKEN; i++) queue.add(job('bob', `b${i}`));
  const started = ids(queue, 2 * MAX_OVERTAKEN, 2).filter((id) => id !== undefined);
  assert.equal(started.length, MAX_OVERTAKEN);
  assert.deepEqual(ids(queue, 1, 4), ['large']);
});

/** A queue whose first job has been overtaken as often as may be, and what was set aside. */
function blocked(obstacle: Obstacle, large: QueuedJob) {
  const queue = new FairQueue();
  queue.add(large);
  queue.add(job('alice', 'behind'));
  const aside: string[] = [];
  const judge: Blocked = { obstacleFor: () => obstacle, setAside: ({ key }) => void aside.push(key.id) };
  const take = () => queue.take(({ demand }) => demand.cpu <= 2, judge)?.key.id;
  for (let i = 0; i < MAX_OVERTAKEN; i++) {
    queue.add(job('bob', `b${i}`));
    assert.equal(take(), `b${i}`);
  }
  return { queue, take, aside };
}

test('queue: no room is kept for a job that others leave no room for; it is set aside', () => {
  const { queue, take, aside } = blocked('others', job('alice', 'large', 4));
  queue.add(job('bob', 'b'));
  assert.deepEqual([take(), take(), take()], ['behind', 'b', undefined]);
  assert.deepEqual([aside, queue.size], [['large'], 0]);
});

test('queue: a job waiting for GPUs blocks only other jobs that need GPUs', () => {
  const wantsGpu = (each: QueuedJob): QueuedJob => ({ ...each, demand: { ...each.demand, gpu: 1 } });
  const { queue, take, aside } = blocked('gpus', wantsGpu(job('alice', 'large', 4)));
  queue.add(wantsGpu(job('carol', 'gpu')));
  queue.add(job('bob', 'b'));
  assert.deepEqual([take(), take()], ['b', undefined]);
  assert.deepEqual([aside, queue.size], [[], 3]);
});

test('queue: a removed job is not started, and a job that is added twice starts once', () => {
  const queue = new FairQueue();
  for (const id of ['1', '2', '2']) queue.add(job('alice', id));
  queue.remove({ service: 's', id: '1' });
  queue.remove({ service: 's', id: 'never' });
  assert.equal(queue.size, 1);
  assert.deepEqual(ids(queue, 2), ['2', undefined]);
});

test('queue: every job that is not removed starts once, in order per owner', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('add' as const), owner: fc.constantFrom('a', 'b', 'c'), n: fc.nat(20) }),
    fc.record({ do: fc.constant('remove' as const), owner: fc.constantFrom('a', 'b', 'c'), n: fc.nat(20) }),
    fc.record({ do: fc.constant('take' as const), owner: fc.constant(''), n: fc.nat(1) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const queue = new FairQueue();
      const expected = new Map<string, string[]>();
      const took = (waiting: QueuedJob | undefined) => {
        if (waiting) assert.equal(expected.get(waiting.owner)?.shift(), waiting.key.id);
        else assert.ok([...expected.values()].every((line) => line.length === 0));
      };
      for (const { do: what, owner, n } of steps) {
        const id = `${owner}${n}`;
        const line = expected.get(owner) ?? [];
        if (what === 'take') took(queue.take(() => true, NOBODY));
        else if (what === 'remove') {
          queue.remove({ service: 's', id });
          expected.set(
            owner,
            line.filter((each) => each !== id),
          );
        } else {
          queue.add(job(owner, id));
          if (!line.includes(id)) expected.set(owner, [...line, id]);
        }
      }
      while (queue.size > 0) took(queue.take(() => true, NOBODY));
      took(queue.take(() => true, NOBODY));
    }),
  );
});

test('queue: jobs of two federations and local jobs of one owner take turns', () => {
  const started: string[] = [];
  const room = { free: 0 };
  const queue = new JobQueue({
    capacity: { refusal: () => undefined, reserve: () => room.free-- > 0, obstacle: () => 'ours' },
    services: { get: async () => undefined },
    runner: {},
    start: ({ key }) => void started.push(key.id),
    setMessage: () => {},
    onSuspendedLong: () => {},
    report: () => {},
  });
  const demand = { cpu: 1000, memory: 0, gpu: 0 };
  const hosted = (uid: string) => ({
    taken: { uid, member: 'b/x', job: { service: 'x', id: 'x' }, epoch: 1, payload: '' },
  });
  const add = (id: string, more: object) => queue.add({ service: 's', id, owner: 'alice', demand, ...more });
  for (const index of [1, 2, 3]) add(`one-${index}`, hosted('one'));
  for (const index of [1, 2]) add(`two-${index}`, hosted('two'));
  add('local-1', {});
  room.free = 6;
  queue.startFitting();
  queue.close();
  assert.deepEqual(started, ['one-1', 'two-1', 'local-1', 'one-2', 'two-2', 'one-3']);
});

const hostedJob = (origin: string | undefined, owner: string, id: string): QueuedJob => ({
  ...job(owner, id),
  ...(origin !== undefined && { origin }),
});

test('queue: with a hosted share of 25 %, one of four starts is for other clusters, by their weights', () => {
  const queue = new FairQueue({ hosted: 0.25, weights: new Map([['b', 3]]) });
  for (let i = 0; i < 400; i++)
    for (const origin of [undefined, 'b', 'c']) queue.add(hostedJob(origin, 'alice', `${origin}-${i}`));
  const counts = Map.groupBy(ids(queue, 160), (id) => id?.split('-')[0]);
  assert.deepEqual(
    ['undefined', 'b', 'c'].map((origin) => counts.get(origin)?.length),
    [120, 30, 10],
  );
});

test('queue: with a hosted share of 0, jobs of other clusters start when no local job waits', () => {
  const queue = new FairQueue({ hosted: 0, weights: new Map() });
  queue.add(hostedJob('b', 'alice', 'b1'));
  queue.add(hostedJob('b', 'alice', 'b2'));
  queue.add(job('alice', 'a1'));
  assert.deepEqual(ids(queue, 2), ['a1', 'b1']);
  queue.add(job('alice', 'a2'));
  assert.deepEqual(ids(queue, 3), ['a2', 'b2', undefined]);
});

test('queue: a cluster with a thousand federations does not starve one with a single job', () => {
  const queue = new FairQueue();
  for (let i = 0; i < 1_000; i++) queue.add(hostedJob('b', `owner in ${i}`, `b${i}`));
  queue.add(hostedJob('c', 'owner in c', 'c'));
  assert.ok(ids(queue, 2).includes('c'));
});

test('queue: a group that had no jobs gets its share from then on, and not what it has missed', () => {
  const queue = new FairQueue();
  for (let i = 0; i < 100; i++) queue.add(job('alice', `a${i}`));
  ids(queue, 50);
  for (let i = 0; i < 50; i++) queue.add(hostedJob('b', 'bob', `b${i}`));
  const started = ids(queue, 20).filter((id) => id?.startsWith('b'));
  assert.equal(started.length, 10);
});

test('queue: whatever the shares are and whichever groups have jobs, no group falls behind its share', () => {
  const origins = [undefined, 'b', 'c', 'd'];
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 99 }),
      fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 3, maxLength: 3 }),
      fc.integer({ min: 50, max: 300 }),
      fc.nat(60),
      (percent, [b = 1, c = 1, d = 1], starts, before) => {
        const weights = new Map([
          ['b', b],
          ['c', c],
          ['d', d],
        ]);
        const hosted = percent / 100;
        const queue = new FairQueue({ hosted, weights });
        // Some starts during which one group alone has jobs change nothing for later.
        for (let i = 0; i < before; i++) queue.add(hostedJob('b', 'bob', `before-${i}`));
        ids(queue, before);
        for (let i = 0; i < starts; i++) {
          for (const origin of origins) queue.add(hostedJob(origin, `owner-${i % 3}`, `${origin}-${i}`));
        }
        const counts = Map.groupBy(ids(queue, starts), (id) => id?.split('-')[0]);
        for (const origin of origins) {
          const share = origin === undefined ? 1 - hosted : (hosted * (weights.get(origin) ?? 0)) / (b + c + d);
          const started = counts.get(String(origin))?.length ?? 0;
          assert.ok(
            started >= Math.floor(share * starts) - origins.length,
            `${origin}: ${started} of ${share * starts}`,
          );
        }
      },
    ),
  );
});
