import { isDeepStrictEqual } from 'node:util';
import { everyBucket } from '../buckets/index.ts';
import { allSettled } from '../lib/concurrency.ts';
import {
  inputFolders,
  outputFolders,
  type RemoteBucket,
  remoteOutputBuckets,
  type Service,
} from '../model/service/index.ts';
import {
  type NewBucket,
  type ObjectStore,
  type ProviderBuckets,
  type ServiceStore,
  StorageError,
  type Subscription,
  type Visibility,
} from '../ports/index.ts';

/**
 * Makes what a service needs in the store, as far as it is not there yet. A bucket of somebody else is never used,
 * whatever its visibility: a service would be granted what its owner has no right to, and delete it in the end (S5).
 * Again: nothing changes, what is there stays as it is. If it fails, what was made carries the uid of the service, and `clearStorage` finds it.
 */
export async function provisionStorage(service: Service, store: ObjectStore): Promise<void> {
  const plan = planStorage(service);
  const noKeys = plan.buckets.length > 0 ? await store.noJobKeys?.() : undefined;
  if (noKeys !== undefined) {
    throw new StorageError(
      'no-job-keys',
      `${noKeys}: "${service.definition.name}" can have no input or output there; take a storage provider with keys of its own`,
    );
  }
  await allSettled(plan.buckets.map((bucket) => ensureBucket(bucket, store)));
  await allSettled(plan.folders.map(({ bucket, folder }) => store.ensureFolder(bucket, folder)));
  await allSettled(plan.subscriptions.map((subscription) => store.subscribe(subscription)));
}

async function ensureBucket(wanted: NewBucket, store: ObjectStore): Promise<void> {
  const outcome = await store.createBucket(wanted);
  if (outcome === 'created') return;
  const { exists } = outcome;
  if (exists.owner !== wanted.owner) {
    throw new StorageError('bucket-taken', `the bucket "${wanted.name}" belongs to somebody else: choose another path`);
  }
}

/** Buckets that were made for a service follow its visibility; those its owner had before keep their own. */
export async function updateBucketAccess(service: Service, store: ObjectStore): Promise<void> {
  const wanted = new Map(planStorage(service).buckets.map((bucket) => [bucket.name, bucket]));
  const made = await Array.fromAsync(everyBucket(store, { madeFor: service.uid }));
  await allSettled(
    made.map(async ({ name, visibility, allowedUsers }) => {
      const want = wanted.get(name);
      if (!want || (want.visibility === visibility && isDeepStrictEqual(want.allowedUsers, allowedUsers))) return;
      await store.changeBucket(name, { visibility: want.visibility, allowedUsers: want.allowedUsers });
    }),
  );
}

/** What a service has in the store: its buckets carry its uid, its subscriptions and its buckets elsewhere are listed. */
export interface StorageClaim {
  readonly uid: string;
  readonly subscriptions: readonly Subscription[];
  /** Buckets of other stores that may have been made for it. */
  readonly remote: readonly RemoteBucket[];
}

export const toStorageClaim = (service: Service): StorageClaim => ({
  uid: service.uid,
  subscriptions: planStorage(service).subscriptions,
  remote: remoteOutputBuckets(service),
});

interface ClearOptions {
  /** The service as it is now; absent when it is gone. */
  readonly next?: Service;
  /** Another service that uses the bucket. */
  readonly heirOf: (bucket: string) => Promise<Service | undefined>;
}

/**
 * Takes back what a service no longer needs. Its subscriptions end. A bucket that was made for it and has left its
 * definition becomes a private bucket of its owner, with its data; when the service goes, so does the bucket, unless
 * another uses it, which then has it (F46, S6).
 */
export async function releaseOwnStorage(
  claim: Omit<StorageClaim, 'remote'>,
  store: ObjectStore,
  { next, heirOf }: ClearOptions,
): Promise<void> {
  await endSubscriptions(claim, store, next);

  const kept = new Set(next && planStorage(next).buckets.map(({ name }) => name));
  const made = await Array.fromAsync(everyBucket(store, { madeFor: claim.uid }));
  await allSettled(
    made
      .filter(({ name }) => !kept.has(name))
      .map(({ name }) => releaseBucket(name, store, { ...(next && { next }), heirOf })),
  );
}

/** Ends those subscriptions that the service as it is now does not have. */
async function endSubscriptions(
  { subscriptions }: Pick<StorageClaim, 'subscriptions'>,
  store: Pick<ObjectStore, 'unsubscribe'>,
  next: Service | undefined,
): Promise<void> {
  const needed = new Set(next && planStorage(next).subscriptions.map(subscriptionKey));
  const ended = subscriptions.filter((old) => !needed.has(subscriptionKey(old)));
  await allSettled(ended.map((subscription) => store.unsubscribe(subscription)));
}

async function releaseBucket(name: string, store: ObjectStore, { next, heirOf }: ClearOptions): Promise<void> {
  const heir = await heirOf(name);
  if (heir) {
    await store.changeBucket(name, { madeFor: { uid: heir.uid, service: heir.definition.name } });
    await updateBucketAccess(heir, store);
  } else if (next) await store.changeBucket(name, { visibility: 'private', allowedUsers: [], madeFor: null });
  else await store.removeBucket(name);
}

/** Two subscriptions with the same key are the same one. */
const subscriptionKey = ({ bucket, prefix, subscriber }: Subscription) => JSON.stringify([bucket, prefix, subscriber]);

/** What a service needs in the store of its cluster (docs/go-manager.md#in-minio). */
interface StoragePlan {
  readonly buckets: readonly NewBucket[];
  readonly folders: readonly { readonly bucket: string; readonly folder: string }[];
  readonly subscriptions: readonly Subscription[];
}

/** Buckets and folders of its inputs and outputs, and a subscription per input. Other stores are not ours to arrange. */
function planStorage(service: Service): StoragePlan {
  const { definition, owner, ownerName, uid } = service;
  const madeFor = { uid, service: definition.name };
  const visibility = definition.visibility as Visibility;
  const shared = { owner, ownerName, visibility, allowedUsers: definition.allowed_users, madeFor };
  const inputs = inputFolders(service);
  const all = [...inputs, ...outputFolders(service)];

  const buckets = new Map<string, NewBucket>();
  for (const { bucket: name, user } of all) {
    const theirs = user && { owner: user, ownerName: user, visibility: 'private' as const, allowedUsers: [], madeFor };
    buckets.set(name, { name, ...(theirs || shared) });
  }
  return {
    buckets: [...buckets.values()],
    folders: all.map(({ bucket, folder }) => ({ bucket, folder })),
    subscriptions: inputs.map(({ bucket, folder }) => ({
      bucket,
      prefix: `${folder}/`,
      subscriber: uid,
      service: definition.name,
    })),
  };
}

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
    for (const { service } of page.items) renewed += await renewService(service, services, objects, signal);
    if (page.next === undefined) return renewed;
    page = await services.list({ cursor: page.next });
  }
}

async function renewService(
  service: Service,
  services: Pick<ServiceStore, 'get'>,
  objects: Pick<ObjectStore, 'subscribe' | 'unsubscribe'>,
  signal: AbortSignal,
): Promise<number> {
  const { subscriptions } = planStorage(service);
  if (subscriptions.length === 0) return 0;
  for (const subscription of subscriptions) {
    signal.throwIfAborted();
    await objects.subscribe(subscription);
  }
  // Whoever has changed or removed it since it was listed has ended its subscriptions, perhaps before we made them.
  await endSubscriptions({ subscriptions }, objects, (await services.get(service.definition.name))?.service);
  return subscriptions.length;
}

/** A store that a Go manager may have used before. */
interface AdoptingStore {
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
      for (const { name, owner } of planStorage(service).buckets) {
        signal.throwIfAborted();
        if (await store.adopt(name, [owner, service.owner], madeFor)) adopted++;
      }
    }
    if (page.next === undefined) return adopted;
    page = await services.list({ cursor: page.next });
  }
}

/**
 * Makes the buckets that a service needs at named stores. Resolves to those that may have been made for it. If one cannot
 * be had, those are removed again that the service, as it was before, does not use.
 */
export async function provisionProviderBuckets(
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
    await releaseProviderBuckets({ uid, remote: ensured }, providers, before);
    throw error;
  }
  return ensured;
}

/** Removes the empty buckets at named stores that were made for a service and that it, as it is now, does not use. */
export async function releaseProviderBuckets(
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
