import type { ServiceStore } from '../cluster/index.ts';
import type { ObjectStore } from './object-store.ts';
import { storagePlan } from './service-buckets.ts';

/**
 * Subscribes every service to its inputs again: at a store of others a rule can be gone, or there was nowhere to send
 * events to when the service was made. Resolves to how many subscriptions there are.
 */
export async function renewSubscriptions(
  services: Pick<ServiceStore, 'list'>,
  objects: Pick<ObjectStore, 'subscribe'>,
  signal: AbortSignal,
): Promise<number> {
  let renewed = 0;
  let page = await services.list({});
  for (;;) {
    for (const { service } of page.items) {
      for (const subscription of storagePlan(service).subscriptions) {
        signal.throwIfAborted();
        await objects.subscribe(subscription);
        renewed++;
      }
    }
    if (page.next === undefined) return renewed;
    page = await services.list({ cursor: page.next });
  }
}
