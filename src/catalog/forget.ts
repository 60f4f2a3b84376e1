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
      const { items } = await catalog.services.list({ anyOf: [usesBucket(bucket)] });
      const others = items.map(({ service }) => service).filter(({ uid }) => uid !== claim.uid);
      // A list may lag behind: only what is still there can inherit.
      const current = await Promise.all(others.map(({ definition }) => catalog.services.get(definition.name)));
      return current.find((record, index) => record?.service.uid === others[index]?.uid)?.service;
    },
  });
}
