import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeBlobStore } from '../../ports/conformance/blob-store.conformance.ts';
import { STAGING_BUCKET } from '../../ports/index.ts';
import { openBlobStore } from './blob-store.fixture.ts';

describeBlobStore('a part of the embedded store', openBlobStore);

const large = new Uint8Array(3 * 2 ** 20);

test('blob store: blobs are in the staging bucket, apart from what other clusters stage there', async (t) => {
  const { blobs, store, close } = await openBlobStore();
  t.after(close);
  await blobs.put('events/a', large);
  const { items } = await store.objects(STAGING_BUCKET, { limit: 10 });
  assert.deepEqual(
    items.map(({ key }) => key),
    ['.shelf/events/a'],
  );
});

test('blob store: a store that does not answer is reported as unavailable', async () => {
  const { blobs, close } = await openBlobStore();
  await blobs.put('a', large);
  await close();
  await assert.rejects(blobs.put('a', large), { code: 'unavailable', message: /did not take 3145728 bytes/ });
});
