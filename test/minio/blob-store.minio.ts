import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BlobSweep } from '../../src/adapters/kubernetes/stores/blob-sweep.ts';
import { ObjectBlobStore } from '../../src/adapters/object-stores/blob-store.ts';
import { describeBlobStore } from '../../src/ports/conformance/blob-store.conformance.ts';
import { Minio } from './minio.ts';
import { openStore } from './under-test.ts';

async function openMinioBlobStore() {
  const minio = await Minio.start();
  const store = openStore(minio);
  return {
    blobs: new ObjectBlobStore(store),
    close: async () => {
      store.close();
      await minio.stop();
    },
  };
}

describeBlobStore('a part of MinIO', openMinioBlobStore);

test('blob store: only blobs without a job are removed from MinIO', async (t) => {
  const { blobs, close } = await openMinioBlobStore();
  t.after(close);
  const bytes = new Uint8Array(1_000);
  const needed = ['events/ns/known/1', 'attempts/ns/known/answer', 'events/ns/asked/1', 'attempts/ns/asked/log'];
  const gone = ['events/ns/gone/1', 'attempts/ns/gone/answer', 'attempts/ns/gone/log'];
  for (const key of [...needed, ...gone]) await blobs.put(key, bytes);
  const sweep = (now: number) =>
    new BlobSweep({
      blobs,
      referenced: async () => ({ events: new Set(['events/ns/known/1']), attempts: new Set(['known']) }),
      isReferenced: async ({ name }) => name === 'asked',
      now: () => now,
      report: (problem) => assert.fail(String(problem)),
      onRemoved: () => undefined,
    });
  assert.equal(await sweep(Date.now()).pass(), 0, 'all of it is too young');
  assert.equal(await sweep(Date.now() + 2 * 60 * 60_000).pass(), gone.length);
  const { items } = await blobs.list();
  assert.deepEqual(items.map(({ key }) => key).toSorted(), needed.toSorted());
});
