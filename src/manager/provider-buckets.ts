import type { Logger } from 'pino';
import type { NamedStores } from '../adapters/object-stores/s3/index.ts';
import type { Config } from '../config/index.ts';
import { namedAccess } from '../jobs/index.ts';
import type { S3Access } from '../model/job/index.ts';
import type { ProviderBuckets } from '../ports/index.ts';

export interface OpenProviders {
  readonly buckets: ProviderBuckets;
  close(): Promise<void>;
}

/** Buckets at the stores that the operator named; undefined where none of those has buckets. */
export function openProviders(config: Config, log: Logger): OpenProviders | undefined {
  const stores = new Map<string, S3Access>();
  for (const [id, provider] of config.storageProviders) {
    const access = namedAccess(provider);
    if (access.type === 's3') stores.set(id, access);
  }
  if (stores.size === 0) return undefined;
  let opened: Promise<NamedStores> | undefined;
  // Most managers have named stores and no service that uses them: what talks to them is loaded for the first that does.
  const open = () => {
    opened ??= import('../adapters/object-stores/s3/index.ts').then(
      (adapter) =>
        new adapter.NamedStores(stores, {
          managerName: config.name,
          report: (err, what) => log.warn({ err }, what),
        }),
    );
    return opened;
  };
  return {
    buckets: {
      has: (store) => stores.has(store),
      ensure: async (bucket) => (await open()).ensure(bucket),
      remove: async (bucket, uid) => (await open()).remove(bucket, uid),
    },
    async close() {
      (await opened)?.close();
    },
  };
}
