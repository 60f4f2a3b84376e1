import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeBlobStore } from '../../ports/conformance/blob-store.conformance.ts';
import { STAGING_BUCKET } from '../../ports/index.ts';
import { openShelf } from './blob-store.fixture.ts';

describeBlobStore('a part of the embedded store', openShelf);

const large = new Uint8Array(3 * 2 ** 20);

test('it is a part of the manager’s own bucket, apart from what other clusters stage there', async (t) => {
  const { shelf, store, close } = await openShelf();
  t.after(close);
  await shelf.put('events/a', large);
  const { items } = await store.objects(STAGING_BUCKET, { limit: 10 });
  assert.deepEqual(
    items.map(({ key }) => key),
    ['.shelf/events/a'],
  );
});

test('a store that is away is said to be so', async () => {
  const { shelf, close } = await openShelf();
  await shelf.put('a', large);
  await close();
  await assert.rejects(shelf.put('a', large), { code: 'unavailable', message: /did not take 3145728 bytes/ });
});
