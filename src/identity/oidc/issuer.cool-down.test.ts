import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withCoolDown } from './issuer.ts';

/** A call that fails while `down`, with a manual clock. */
function setUp() {
  const state = { now: 0, down: true, attempts: 0, waits: [] as number[] };
  const call = withCoolDown(
    async (word: string) => {
      state.attempts += 1;
      await Promise.resolve();
      if (state.down) throw new Error(`down at ${state.now}`);
      return word;
    },
    { now: () => state.now, failed: (_reason, wait) => state.waits.push(wait) },
  );
  return { state, call };
}

test('cool-down: without failures every call is an attempt', async () => {
  const { state, call } = setUp();
  state.down = false;
  assert.deepEqual([await call('a'), await call('b')], ['a', 'b']);
  assert.equal(state.attempts, 2);
});

test('cool-down: after a failure calls fail at once with the same error until the wait is over', async () => {
  const { state, call } = setUp();
  await assert.rejects(call('a'), /down at 0/);
  state.now = 999;
  await assert.rejects(call('a'), /down at 0/);
  assert.equal(state.attempts, 1);

  state.now = 1_000;
  state.down = false;
  assert.equal(await call('a'), 'a');
});

test('cool-down: each further failure doubles the wait, up to 30 s', async () => {
  const { state, call } = setUp();
  for (let i = 0; i < 7; i += 1) {
    await assert.rejects(call('a'));
    state.now += state.waits.at(-1) ?? 0;
  }
  assert.deepEqual(state.waits, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
});

test('cool-down: a success resets the wait', async () => {
  const { state, call } = setUp();
  await assert.rejects(call('a'));
  state.now = 1_000;
  await assert.rejects(call('a'));
  state.now = 3_000;
  state.down = false;
  await call('a');
  state.down = true;
  await assert.rejects(call('a'));
  assert.deepEqual(state.waits, [1_000, 2_000, 1_000]);
});

test('cool-down: concurrent failures count as one', async () => {
  const { state, call } = setUp();
  const results = await Promise.allSettled(Array.from({ length: 10 }, () => call('a')));
  assert.ok(results.every(({ status }) => status === 'rejected'));
  assert.deepEqual(state.waits, [1_000]);
});
