import { usesBucket } from '../cluster/index.ts';
import type { Service } from '../service/index.ts';
import { clearStorage, type StorageClaim } from '../storage/index.ts';
import type { Catalog } from './catalog.ts';
import type { Leftovers } from './intent.ts';
import { forgetSecrets } from './service-secrets.ts';

/** Removes what a service that is gone, or was never finished, has left in the stores. Again: nothing happens. */
export async function forget(leftovers: Leftovers, catalog: Catalog): Promise<void> {
  await catalog.forgetJobs?.(leftovers.uid);
  await forgetSecrets(leftovers, catalog);
  await tidyStorage(leftovers, undefined, catalog);
}

/** Takes back what a service no longer needs in the object store; `next` is the service as it is now. */
export async function tidyStorage(claim: StorageClaim, next: Service | undefined, catalog: Catalog): Promise<void> {
  if (!catalog.objects) return;
  await clearStorage(claim, catalog.objects, {
    ...(next && { next }),
    heirOf: async (bucket) => {
      // Whoever is not in it loses its files.
      const { items } = await catalog.services.list({ anyOf: [usesBucket(bucket)], fresh: true });
      return items.find(({ service }) => service.uid !== claim.uid)?.service;
    },
  });
}
