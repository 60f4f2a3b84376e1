import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusterWith, memberOn, namesIn, never, SMALL } from './candidate.fixture.ts';
import { rank } from './rank.ts';

const FASTEST = { policy: 'fastest' };
const on = (cluster: string, more: object, snapshot: object = {}) =>
  memberOn(cluster, { snapshot: clusterWith([8], { meanDuration: 10, ...snapshot }), ...more });

test('fastest: the member where the job ends first is chosen, and the score is that time in seconds', () => {
  const near = on('near', { transferSeconds: 1, durationSeconds: 30 });
  const far = on('far', { transferSeconds: 20, durationSeconds: 5 });
  const ranked = rank(FASTEST, [near, far], SMALL, never);
  assert.deepEqual(namesIn(ranked), ['far', 'near']);
  assert.deepEqual(
    ranked.map(({ score }) => score),
    [25, 31],
  );
});

test('fastest: a large input keeps the job near, a small one does not', () => {
  const order = (seconds: number) => {
    const near = on('near', { durationSeconds: 12 });
    const far = on('far', { transferSeconds: seconds, durationSeconds: 6 });
    return namesIn(rank(FASTEST, [near, far], SMALL, never));
  };
  assert.deepEqual(order(1), ['far', 'near']);
  assert.deepEqual(order(60), ['near', 'far']);
});

test('fastest: jobs that wait at a member count, shared by its free cores', () => {
  const idle = on('idle', { durationSeconds: 14 });
  const queued = on('queued', { durationSeconds: 10 }, { pending: 4 });
  const [first, second] = rank(FASTEST, [idle, queued], SMALL, never);
  assert.deepEqual(namesIn([first, second].filter((each) => each !== undefined)), ['idle', 'queued']);
  assert.equal(second?.score, 15);
});

test('fastest: the duration of the service there counts before that of all jobs there', () => {
  const a = on('a', { durationSeconds: 3 }, { meanDuration: 100 });
  const b = on('b', {}, { meanDuration: 4 });
  assert.deepEqual(namesIn(rank(FASTEST, [a, b], SMALL, never)), ['a', 'b']);
});

test('fastest: a member of which no duration is known is tried as if it were the fastest', () => {
  const { meanDuration: _, ...unknown } = clusterWith([8]);
  const fresh = memberOn('fresh', { snapshot: unknown });
  const [first] = rank(FASTEST, [on('known', { transferSeconds: 1, durationSeconds: 5 }), fresh], SMALL, never);
  assert.deepEqual([first?.candidate.member, first?.score], ['fresh/demo', 5]);
});
