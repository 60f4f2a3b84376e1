import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { forEachSettled, KeyedMutex, mapConcurrent, SharedRun, Slots } from './concurrency.ts';

test('Slots: no more tasks than slots run at once, in order, and a failed task frees its slot', async () => {
  const slots = new Slots(2);
  const begun: number[] = [];
  let now = 0;
  let most = 0;
  const work = (n: number) => async () => {
    begun.push(n);
    most = Math.max(most, ++now);
    await turn();
    now--;
    if (n % 2 === 1) throw new Error('failed');
  };
  await Promise.allSettled(Array.from({ length: 7 }, (_, n) => slots.use(work(n))));
  assert.deepEqual(begun, [0, 1, 2, 3, 4, 5, 6]);
  assert.equal(most, 2);
});

test('KeyedMutex: tasks of one key run in order, those of other keys at the same time, and a failure delays none', async () => {
  const mutex = new KeyedMutex();
  const steps: string[] = [];
  const work = (name: string) => async () => {
    steps.push(`${name} begins`);
    await turn();
    steps.push(`${name} ends`);
    if (name === 'a1') throw new Error(name);
    return name;
  };
  const failing = assert.rejects(mutex.run('a', work('a1')), /a1/);
  assert.deepEqual(await Promise.all([mutex.run('a', work('a2')), mutex.run('b', work('b1'))]), ['a2', 'b1']);
  await failing;
  assert.deepEqual(
    steps.filter((step) => step.startsWith('a')),
    ['a1 begins', 'a1 ends', 'a2 begins', 'a2 ends'],
  );
  assert.ok(steps.indexOf('b1 begins') < steps.indexOf('a1 ends'));
});

test('forEachSettled: works on one item after the other, and counts those that did not return false', async () => {
  const turns: string[] = [];
  const work = async (name: string) => {
    turns.push(name);
    await turn();
    turns.push(name);
    return name !== 'b';
  };
  assert.equal(await forEachSettled(['a', 'b', 'c'], work), 2);
  assert.deepEqual(turns, ['a', 'a', 'b', 'b', 'c', 'c']);
});

test('forEachSettled: a failure does not stop the rest, and the first error is thrown', async () => {
  const done: string[] = [];
  const work = async (name: string) => {
    if (name !== 'c') throw new Error(name);
    done.push(name);
  };
  await assert.rejects(forEachSettled(['a', 'b', 'c'], work), /^Error: a$/);
  assert.deepEqual(done, ['c']);
});

test('mapConcurrent: works on all items, no more than the limit at once; a slow item delays no other', async () => {
  const slow = Promise.withResolvers<void>();
  const done: number[] = [];
  let now = 0;
  let most = 0;
  await mapConcurrent([0, 1, 2, 3, 4, 5], 2, async (n) => {
    most = Math.max(most, ++now);
    await (n === 0 ? slow.promise : turn());
    now--;
    done.push(n);
    if (n === 5) slow.resolve();
  });
  assert.deepEqual(done, [1, 2, 3, 4, 5, 0]);
  assert.equal(most, 2);
});

test('mapConcurrent: an error is thrown after the other items are done', async () => {
  const done: number[] = [];
  const work = async (n: number) => {
    await turn();
    if (n === 0) throw new Error('first');
    done.push(n);
  };
  await assert.rejects(mapConcurrent([0, 1, 2, 3], 2, work), /first/);
  assert.deepEqual(done, [1, 2, 3]);
});

function sharedRun() {
  const runs: PromiseWithResolvers<void>[] = [];
  const shared = new SharedRun(() => {
    const run = Promise.withResolvers<void>();
    runs.push(run);
    return run.promise;
  });
  return { shared, runs };
}

test('SharedRun: callers during a run share the next run', async () => {
  const { shared, runs } = sharedRun();
  const first = shared.run();
  const later = [shared.run(), shared.run()];
  assert.equal(runs.length, 1);
  runs[0]?.resolve();
  await first;
  await turn();
  assert.equal(runs.length, 2);
  const last = shared.run();
  runs[1]?.resolve();
  await Promise.all(later);
  await turn();
  runs[2]?.resolve();
  await last;
  assert.equal(runs.length, 3);
  void shared.run();
  assert.equal(runs.length, 4);
});

test('SharedRun: a failed run fails for its callers, not for callers of the next run', async () => {
  const { shared, runs } = sharedRun();
  const failing = assert.rejects(shared.run(), /away/);
  const next = shared.run();
  runs[0]?.reject(new Error('away'));
  await failing;
  await turn();
  runs[1]?.resolve();
  await next;
});
