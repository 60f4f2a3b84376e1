import { allSettled } from '../lib/concurrency.ts';
import { type RemoteBucket, remoteOutputBuckets, type Service } from '../model/service/index.ts';
import type { ProviderBuckets } from '../ports/index.ts';
import type { StorageClaim } from './storage.ts';

/**
 * Makes the buckets that a service needs at named stores. Resolves to those that may have been made for it. If one cannot
 * be had, those are removed again that the service, as it was before, does not use.
 */
export async function arrangeProviders(
  service: Service,
  providers: ProviderBuckets,
  before?: Service,
): Promise<RemoteBucket[]> {
  const { owner, ownerName, uid, definition } = service;
  const wanted = remoteOutputBuckets(service).filter(({ store }) => providers.has(store));
  const madeFor = { uid, service: definition.name };
  const ensured: RemoteBucket[] = [];
  try {
    await allSettled(
      wanted.map(async (each) => {
        await providers.ensure({ ...each, owner, ownerName, madeFor });
        ensured.push(each);
      }),
    );
  } catch (error) {
    await clearProviders({ uid, remote: ensured }, providers, before);
    throw error;
  }
  return ensured;
}

/** Removes the empty buckets at named stores that were made for a service and that it, as it is now, does not use. */
export async function clearProviders(
  { uid, remote }: Pick<StorageClaim, 'uid' | 'remote'>,
  providers: ProviderBuckets,
  next: Service | undefined,
): Promise<void> {
  const needed = next ? remoteOutputBuckets(next) : [];
  const left = remote.filter(
    ({ store, bucket }) =>
      providers.has(store) && !needed.some((other) => other.store === store && other.bucket === bucket),
  );
  await allSettled(left.map((each) => providers.remove(each, uid)));
}
