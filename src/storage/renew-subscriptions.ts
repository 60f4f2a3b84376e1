import type { ServiceStore } from '../cluster/index.ts';
import type { Service } from '../service/index.ts';
import { endSubscriptions } from './arrange.ts';
import type { ObjectStore } from './object-store.ts';
import { storagePlan } from './service-buckets.ts';

/**
 * Subscribes every service to its inputs again: at a store of others a rule can be gone, or there was nowhere to send
 * events to when the service was made. Resolves to how many subscriptions there are.
 */
export async function renewSubscriptions(
  services: Pick<ServiceStore, 'list' | 'get'>,
  objects: Pick<ObjectStore, 'subscribe' | 'unsubscribe'>,
  signal: AbortSignal,
): Promise<number> {
  let renewed = 0;
  let page = await services.list({});
  for (;;) {
    for (const { service } of page.items) renewed += await renew(service, services, objects, signal);
    if (page.next === undefined) return renewed;
    page = await services.list({ cursor: page.next });
  }
}

async function renew(
  service: Service,
  services: Pick<ServiceStore, 'get'>,
  objects: Pick<ObjectStore, 'subscribe' | 'unsubscribe'>,
  signal: AbortSignal,
): Promise<number> {
  const { subscriptions } = storagePlan(service);
  if (subscriptions.length === 0) return 0;
  for (const subscription of subscriptions) {
    signal.throwIfAborted();
    await objects.subscribe(subscription);
  }
  // Whoever has changed or removed it since it was listed has ended its subscriptions, perhaps before we made them.
  await endSubscriptions({ subscriptions }, objects, (await services.get(service.definition.name))?.service);
  return subscriptions.length;
}
