import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, test } from 'node:test';
import { openBlobStore } from '../../src/adapters/object-stores/blob-store.fixture.ts';
import { sampleJob, sampleProgress } from '../../src/ports/conformance/sample-job.ts';
import { sampleService } from '../../src/ports/conformance/sample-service.ts';
import { created } from '../../src/ports/conformance/service-store-under-test.ts';
import { SERVICES_NAMESPACE, startTestbed } from './testbed.ts';

const testbed = await startTestbed();
const { blobs: blobStore, close: closeBlobStore } = await openBlobStore();
after(() => Promise.all([testbed.plane.stop(), closeBlobStore()]));
const { admin } = testbed.plane;

const JOBS = `/apis/batch/v1/namespaces/${SERVICES_NAMESPACE}/jobs`;
const SECRETS = `/api/v1/namespaces/${SERVICES_NAMESPACE}/secrets`;

/** Larger than the limit up to which an event is kept in the object itself. */
const LARGE = new Uint8Array(100_000).fill(120);

const HOURS_MS = 3 * 60 * 60_000;

const keys = async () => (await blobStore.list()).items.map(({ key }) => key).toSorted();

/** Opens the stores of a manager whose clock is ahead of the store's. */
async function opened(attempts: readonly string[] = []) {
  const cluster = await testbed.open({ now: () => Date.now() + HOURS_MS });
  cluster.useBlobStore(blobStore);
  const sweep = cluster.blobSweep({
    blobs: blobStore,
    attempts: async () => new Set(attempts),
    onRemoved: () => undefined,
  });
  return { cluster, sweep };
}

test('blob store: blobs of deleted jobs and attempts are removed, others are kept', async () => {
  const first = await opened();
  await created(first.cluster.services, sampleService('cow'));
  const [stays, goes] = [sampleJob(randomUUID()), sampleJob(randomUUID())];
  await first.cluster.jobs.accept(stays, sampleProgress(), LARGE);
  const [eventThatStays = ''] = await keys();
  await first.cluster.jobs.accept(goes, sampleProgress(), LARGE);
  assert.equal((await keys()).length, 2);
  await first.cluster.close();
  // No manager runs; Kubernetes deletes a Job like this when its TTL is over.
  await admin.do('DELETE', `${JOBS}/${goes.id}?propagationPolicy=Background`);

  const at = (name: string, what: string) => `attempts/${SERVICES_NAMESPACE}/${name}/${what}`;
  await admin.do('POST', SECRETS, { metadata: { name: 'there' } });
  const needed = [at('there', 'input'), at('there', 'answer'), at('unfinished', 'input')];
  const left = [at('gone', 'input'), at('gone', 'answer'), at('gone', 'log')];
  // A manager was killed between storing the event and creating the job, and a later retry created the job.
  const inVain = eventThatStays.replace(/[^/]+$/, randomUUID());
  for (const key of [...needed, ...left, inVain]) await blobStore.put(key, LARGE);

  const { cluster, sweep } = await opened(['unfinished']);
  try {
    assert.equal(await sweep.pass(), left.length + 2);
    assert.deepEqual(await keys(), [...needed, eventThatStays].toSorted());
    assert.deepEqual(await cluster.jobs.event(stays), LARGE);
    assert.equal(await sweep.pass(), 0);
  } finally {
    await cluster.close();
  }
});
