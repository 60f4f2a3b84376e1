import type { Admin, User } from '../identity/index.ts';
import type { Service } from '../model/service/index.ts';
import { isRace, type ServiceRecord, usesBucket } from '../ports/index.ts';
import { ServicesError } from './errors.ts';
import { beginIntent, endIntent, type Leftovers, toLeftovers } from './intent.ts';
import { findService } from './read.ts';
import { removeSecrets } from './service-secrets.ts';
import type { FederatedServices, LeftBehind, ServiceCaller, Services } from './services.ts';
import { releaseOwnStorage, releaseProviderBuckets, type StorageClaim } from './storage.ts';

/** A coordinator is removed with its members, a worker here alone, after its coordinator has been notified. */
export async function removePlainOrFederated<Caller extends ServiceCaller>(
  caller: Caller,
  name: string,
  { namespace, cascade }: { readonly namespace: string | undefined; readonly cascade: boolean },
  services: Services,
  federated: FederatedServices<Caller>,
): Promise<LeftBehind[]> {
  const { principal } = caller;
  const record = await findRemovable(principal, name, namespace, services);
  const role = record.service.federation?.role;
  if (role === 'coordinator') return federated.remove(caller, record, cascade);
  if (role === 'worker') await federated.removeWorker(caller, name, namespace);
  else await removeService(principal, name, namespace, services);
  return [];
}

const ATTEMPTS = 8;

/**
 * Removes a plain service, its secrets, its subscriptions and the buckets that were made for it. A service that has joined a
 * federation meanwhile is not removed: the caller must try again, and the request then takes the path of federated services.
 */
export async function removeService(
  principal: Admin | User,
  name: string,
  namespace: string | undefined,
  catalog: Services,
): Promise<void> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const record = await findRemovable(principal, name, namespace, catalog);
    if (record.service.federation) break;
    if (await removeRecord(record, catalog)) return;
  }
  throw new ServicesError('contended', `"${name}" is being changed by other requests: try again`);
}

/**
 * Finds a service that the caller may delete. The administrator may name the namespace that the service must be in; a
 * service of another namespace is not found (docs/go-manager.md#services).
 */
export async function findRemovable(
  principal: Admin | User,
  name: string,
  namespace: string | undefined,
  catalog: Pick<Services, 'services'>,
): Promise<ServiceRecord> {
  const record = await findService(principal, 'delete', name, catalog);
  if (principal.kind === 'admin' && namespace && namespace !== record.service.namespace) {
    throw new ServicesError('not-found', `there is no service "${name}" in the namespace ${namespace}`);
  }
  return record;
}

/**
 * Removes a service in the version that was read, with everything it has. Returns false if the service has changed since.
 */
export async function removeRecord({ service, version }: ServiceRecord, catalog: Services): Promise<boolean> {
  const leftovers = toLeftovers(service);
  const intent = await beginIntent('remove', leftovers, catalog.journal, catalog.now());
  try {
    await catalog.services.remove(service.definition.name, version);
  } catch (error) {
    // The intent stays: a concurrent DELETE shares it and may need it.
    if (!isRace(error)) throw error;
    return false;
  }
  await removeLeftovers(leftovers, catalog);
  await endIntent(intent, catalog.journal);
  return true;
}

/** Removes what a service that is removed, or was never completed, has left in the stores. Calling it again is a no-op. */
export async function removeLeftovers(leftovers: Leftovers, catalog: Services): Promise<void> {
  await catalog.forgetJobs?.(leftovers.uid);
  await removeSecrets(leftovers, catalog);
  await releaseStorage(leftovers, undefined, catalog);
}

/** Releases what a service no longer needs in the object stores; `next` is the service as it is now. */
export async function releaseStorage(claim: StorageClaim, next: Service | undefined, catalog: Services): Promise<void> {
  if (catalog.providers) await releaseProviderBuckets(claim, catalog.providers, next);
  if (!catalog.objects) return;
  await releaseOwnStorage(claim, catalog.objects, {
    ...(next && { next }),
    ...(catalog.onBucketKept && { onBucketKept: catalog.onBucketKept }),
    heirOf: async (bucket) => {
      // The list must be fresh: the files of a service that it misses are deleted.
      const { items } = await catalog.services.list({ anyOf: [usesBucket(bucket)], fresh: true });
      return items.find(({ service }) => service.uid !== claim.uid)?.service;
    },
  });
}
