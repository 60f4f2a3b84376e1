import type { ServiceStore } from '../cluster/index.ts';
import type { NewBucket } from './object-store.ts';
import { storagePlan } from './service-buckets.ts';

/** A store that a Go manager may have used before. */
export interface AdoptingStore {
  /**
   * Takes up a bucket that a Go manager made for the service of that name, if it is of one of these owners. False for one
   * that is something else, or taken up already.
   */
  adopt(bucket: string, owners: readonly string[], madeFor: NonNullable<NewBucket['madeFor']>): Promise<boolean>;
}

/**
 * Says of the buckets that a Go manager made for services which services these are: it wrote down only their names.
 * From then on they go with their services. Resolves to how many were taken up.
 */
export async function adoptBuckets(
  services: Pick<ServiceStore, 'list'>,
  store: AdoptingStore,
  signal: AbortSignal,
): Promise<number> {
  let adopted = 0;
  let page = await services.list({});
  for (;;) {
    for (const { service } of page.items) {
      const madeFor = { uid: service.uid, service: service.definition.name };
      for (const { name, owner } of storagePlan(service).buckets) {
        signal.throwIfAborted();
        if (await store.adopt(name, [owner, service.owner], madeFor)) adopted++;
      }
    }
    if (page.next === undefined) return adopted;
    page = await services.list({ cursor: page.next });
  }
}
