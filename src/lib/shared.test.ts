import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Shared } from './concurrency.ts';

function scene() {
  const runs: PromiseWithResolvers<void>[] = [];
  const shared = new Shared(() => {
    const run = Promise.withResolvers<void>();
    runs.push(run);
    return run.promise;
  });
  return { shared, runs };
}

const turn = () => new Promise(setImmediate);

test('who asks while one is under way gets the next one, with all who ask meanwhile', async () => {
  const { shared, runs } = scene();
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

test('one that fails fails for who waited for it, and not for who waits for the next', async () => {
  const { shared, runs } = scene();
  const failing = assert.rejects(shared.run(), /away/);
  const next = shared.run();
  runs[0]?.reject(new Error('away'));
  await failing;
  await turn();
  runs[1]?.resolve();
  await next;
});
