import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import { readStorageEvents } from '../../../model/job/index.ts';
import { describeObjectStore } from '../../../ports/conformance/object-store.conformance.ts';
import { describeStaging } from '../../../ports/conformance/object-store-staging.conformance.ts';
import { bucket, type StoreUnderTest } from '../../../ports/conformance/object-store-under-test.fixture.ts';
import { openObjectStore } from '../../../s3-server/index.ts';
import { EmbeddedStore } from './index.ts';

/** Without encryption, which has its own tests. */
const seal = { seal: (text: string) => Buffer.from(text), open: (bytes: Uint8Array) => Buffer.from(bytes).toString() };

describeObjectStore('the embedded store', open);
describeStaging('the embedded store with another name for it', () => open('oscar-staging-b'), {});

test('embedded store: a staging bucket of another owner fails the start with an explanation', async (t) => {
  const under = await open();
  t.after(() => under.close());
  const { store } = under;
  await store.createBucket(bucket('oscar-staging', { owner: 'mallory' }));
  await assert.rejects(store.ensureStaging(), {
    code: 'conflict',
    message: /belongs to "mallory".*OSCAR_STAGING_BUCKET/,
  });
});

async function open(stagingBucket?: string): Promise<StoreUnderTest> {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-store-'));
  const manager = { accessKey: 'manager', secret: new Secret('manager-secret') };
  const server = openObjectStore({ directory, region: 'us-east-1', manager, seal });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  const endpoint = `http://127.0.0.1:${port}`;
  return {
    store: new EmbeddedStore({ server, endpoint, ...(stagingBucket !== undefined && { stagingBucket }) }),
    endpoint,
    region: 'us-east-1',
    async reported(name) {
      const events = server.takeEvents(1000).flatMap(({ event }) => readStorageEvents(JSON.parse(event)));
      const ofBucket = events.filter((event) => event.bucket === name);
      return ofBucket.map(({ key, principal = '' }) => ({ key, principal }));
    },
    async close() {
      await server.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
