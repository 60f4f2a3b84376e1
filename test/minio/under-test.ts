import assert from 'node:assert/strict';
import { MinioStore, type MinioStoreOptions } from '../../src/adapters/object-stores/minio/index.ts';
import { MANAGER_ACCOUNT } from '../../src/adapters/object-stores/minio/manager-account.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import {
  bucket,
  type StoreUnderTest,
  storeClient,
} from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import type { StoreKeys } from '../../src/ports/index.ts';
import { Hook } from './hook.ts';
import { Minio, ROOT } from './minio.ts';

/** A store with the keys of the manager's own administrator. */
export const openStore = (
  minio: Pick<Minio, 'endpoint' | 'region'>,
  more: Partial<MinioStoreOptions> = {},
): MinioStore =>
  new MinioStore({
    endpoint: minio.endpoint,
    publicEndpoint: minio.endpoint,
    region: minio.region,
    verify: true,
    keys: ROOT,
    managerName: 'oscar',
    ...more,
  });

/** The adapter with its own MinIO and both targets. `keysOf` returns the administrator's keys, if it is not root. */
export async function startUnderTest(
  keysOf: (minio: Minio) => Promise<StoreKeys> = async () => ROOT,
): Promise<StoreUnderTest & { readonly store: MinioStore; readonly minio: Minio }> {
  const hook = new Hook();
  const url = await hook.listen();
  const minio = await Minio.start({
    hooks: {
      OSCAR_FAST: { url: `${url}/fast`, durable: false },
      OSCAR_DURABLE: { url: `${url}/durable`, durable: true },
    },
  });
  const store = openStore(minio, { keys: await keysOf(minio) });
  const root = storeClient(minio, ROOT);
  let last = 0;
  return {
    store,
    minio,
    endpoint: minio.endpoint,
    region: minio.region,
    writesAs: MANAGER_ACCOUNT,
    refusesPatterns: true,
    /** Events of the durable target arrive in order: when a later one has arrived, all earlier ones have too. */
    async reported(name) {
      const key = `in/${++last}`;
      await store.createBucket(bucket('later-than-all'));
      await store.subscribe({ bucket: 'later-than-all', prefix: 'in/', subscriber: 'test' });
      await root.put('later-than-all', key);
      await eventually(
        () =>
          assert.ok(hook.events('/durable').some((event) => event.key === key && event.bucket === 'later-than-all')),
        20_000,
        20,
      );
      const events = hook.events('/durable').filter((event) => event.bucket === name);
      return events.map(({ key: of, principal = '' }) => ({ key: of, principal }));
    },
    async close() {
      store.close();
      await minio.stop();
      hook.close();
    },
  };
}
