import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../ports/conformance/eventually.ts';
import type { Bucket, ObjectStore } from '../ports/index.ts';
import { StoreCount } from './store-count.ts';

const bucketOf = (name: string, objects: number): Bucket => ({
  name,
  owner: 'alice',
  ownerName: 'Alice',
  visibility: 'private',
  allowedUsers: [],
  usage: { bytes: 1, objects },
});

/** A store whose answers the test can delay, and a clock that the test advances. */
function scene() {
  const our = {
    now: 0,
    asked: 0,
    buckets: [bucketOf('a', 2), bucketOf('b', 3)],
    held: undefined as Promise<void> | undefined,
  };
  const store = {
    buckets: async () => {
      our.asked++;
      const items = our.buckets;
      await our.held;
      return { items };
    },
  } as unknown as ObjectStore;
  return { our, count: new StoreCount(store, { goodMs: 60_000, elapsed: () => our.now }) };
}

test('count: frequent requests share one count of the store per interval', async () => {
  const { our, count } = scene();
  for (our.now = 0; our.now < 60_000; our.now += 1_000) {
    assert.deepEqual(pick(await count.read()), { buckets: 2, objects: 5 });
  }
  assert.equal(our.asked, 1);
});

test('count: a request gets the last result at once while a count that is due runs in the background', async () => {
  const { our, count } = scene();
  await count.read();
  our.now = 60_000;
  our.buckets = [bucketOf('a', 7)];
  const { promise, resolve } = Promise.withResolvers<void>();
  our.held = promise;
  assert.deepEqual(pick(await count.read()), { buckets: 2, objects: 5 });
  assert.deepEqual(pick(await count.read()), { buckets: 2, objects: 5 });
  resolve();
  await eventually(async () => assert.deepEqual(pick(await count.read()), { buckets: 1, objects: 7 }));
  assert.equal(our.asked, 2, 'one count at a time');
});

test('count: the first request after a long pause waits for a new count', async () => {
  const { our, count } = scene();
  await count.read();
  our.now = 120_000;
  our.buckets = [];
  assert.deepEqual(pick(await count.read()), { buckets: 0, objects: 0 });
});

test('count: the next result includes a change of this manager, even one made during a count', async () => {
  const { our, count } = scene();
  const early = count.read();
  our.buckets = [bucketOf('new', 1)];
  count.changed();
  assert.deepEqual(pick(await count.read()), { buckets: 1, objects: 1 });
  assert.deepEqual(pick(await early), { buckets: 2, objects: 5 });
  assert.deepEqual(pick(await count.read()), { buckets: 1, objects: 1 });
});

test('count: if the store does not answer, the last result is used until it is too old', async () => {
  const { our, count } = scene();
  await count.read();
  our.now = 90_000;
  our.held = Promise.reject(new Error('away'));
  assert.deepEqual(pick(await count.read()), { buckets: 2, objects: 5 });
  our.now = 120_000;
  await assert.rejects(count.read(), /away/);
});

test('count: a store that is cheap to count is counted for each request', async () => {
  const { our } = scene();
  const store = { buckets: async () => ({ items: our.buckets }) } as unknown as ObjectStore;
  const count = new StoreCount(store, { goodMs: 0 });
  await count.read();
  our.buckets = [];
  assert.deepEqual(pick(await count.read()), { buckets: 0, objects: 0 });
});

const pick = ({ buckets, objects }: { buckets: number; objects: number }) => ({ buckets, objects });
