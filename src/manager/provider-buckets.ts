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

/** Buckets of the storage providers in the settings; undefined if no provider has buckets. */
export function openProviders(config: Config, log: Logger): OpenProviders | undefined {
  const stores = new Map<string, S3Access>();
  for (const [id, provider] of config.storageProviders) {
    const access = namedAccess(provider);
    if (access.type === 's3') stores.set(id, access);
  }
  if (stores.size === 0) return undefined;
  let opened: Promise<NamedStores> | undefined;
  // The client is loaded when the first service uses a provider, because most managers never need it.
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
