import { isDeepStrictEqual } from 'node:util';
import { everyBucket } from '../buckets/index.ts';
import { allSettled } from '../lib/concurrency.ts';
import {
  inputFolders,
  isPersonalBucket,
  outputFolders,
  type RemoteBucket,
  remoteOutputBuckets,
  type Service,
} from '../model/service/index.ts';
import {
  type Bucket,
  type NewBucket,
  type ObjectStore,
  type ProviderBuckets,
  type ServiceStore,
  StorageError,
  type Subscription,
  type Visibility,
} from '../ports/index.ts';
import type { Services } from './services.ts';

/**
 * Creates the buckets, folders and subscriptions that a service needs, as far as they do not exist. A bucket of another user
 * is never used, whatever its visibility: the service would get access that its owner does not have, and would delete the
 * bucket in the end (S5). Calling it again is a no-op. After a failure, what was created carries the uid of the service, and
 * `releaseOwnStorage` finds it.
 */
export async function provisionStorage(service: Service, store: ObjectStore): Promise<void> {
  const plan = planStorage(service);
  if (plan.buckets.length > 0) await requireJobKeys(service, store);
  await allSettled(plan.buckets.map((bucket) => ensureBucket(bucket, store)));
  await allSettled(plan.folders.map(({ bucket, folder }) => store.ensureFolder(bucket, folder)));
  await allSettled(plan.subscriptions.map((subscription) => store.subscribe(subscription)));
}

async function ensureBucket(wanted: NewBucket, store: ObjectStore): Promise<void> {
  const outcome = await store.createBucket(wanted);
  if (outcome !== 'created') requireSameOwner(wanted, outcome.exists);
}

function requireSameOwner(wanted: NewBucket, { owner }: Bucket): void {
  if (owner === wanted.owner) return;
  throw new StorageError('bucket-taken', `the bucket "${wanted.name}" belongs to another user: choose another path`);
}

export interface PlannedBucket {
  readonly name: string;
  /** `keep`: it is no longer used, and becomes a private bucket of its owner. */
  readonly action: 'create' | 'use' | 'keep';
}

/** What {@link provisionStorage} and an update would do with the buckets here. Throws what would reject it, and changes nothing. */
export async function reviewStorage(service: Service, store: ObjectStore): Promise<PlannedBucket[]> {
  const wanted = planStorage(service).buckets;
  if (wanted.length > 0) await requireJobKeys(service, store);
  const used = await Promise.all(
    wanted.map(async (bucket): Promise<PlannedBucket> => {
      const exists = await store.bucket(bucket.name);
      if (exists) requireSameOwner(bucket, exists);
      return { name: bucket.name, action: exists ? 'use' : 'create' };
    }),
  );
  const names = new Set(used.map(({ name }) => name));
  const made = await Array.fromAsync(everyBucket(store, { madeFor: service.uid }));
  const kept = made.filter(({ name }) => !names.has(name)).map(({ name }) => ({ name, action: 'keep' as const }));
  return [...used, ...kept];
}

async function requireJobKeys({ definition }: Service, store: ObjectStore): Promise<void> {
  const noKeys = await store.noJobKeys?.();
  if (noKeys === undefined) return;
  throw new StorageError(
    'no-job-keys',
    `${noKeys}: "${definition.name}" cannot have input or output there; use a storage provider with its own keys`,
  );
}

/** Gives the buckets that were created for a service its visibility. Buckets that its owner had before keep their own. */
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

/**
 * What a service has in the stores. Its buckets here carry its uid; its subscriptions and its buckets at other stores are
 * listed.
 */
export interface StorageClaim {
  readonly uid: string;
  readonly subscriptions: readonly Subscription[];
  /** Buckets at other stores that may have been created for the service. */
  readonly remote: readonly RemoteBucket[];
}

export const toStorageClaim = (service: Service): StorageClaim => ({
  uid: service.uid,
  subscriptions: planStorage(service).subscriptions,
  remote: remoteOutputBuckets(service),
});

interface ClearOptions {
  /** The service as it is now; absent if it was removed. */
  readonly next?: Service;
  /** Finds another service that uses the bucket. */
  readonly heirOf: (bucket: string) => Promise<Service | undefined>;
  readonly onBucketKept?: Services['onBucketKept'];
}

/**
 * Releases what a service no longer needs. Its subscriptions end. A bucket that was created for the service and is no longer
 * in its definition becomes a private bucket of its owner, with its data. When the service is removed, its buckets are
 * deleted, unless another service uses them: that service then has them (F46, S6). A bucket of one user is deleted as soon as
 * it is not needed, unless it has files: those belong to the user, who keeps the bucket.
 */
export async function releaseOwnStorage(
  claim: Omit<StorageClaim, 'remote'>,
  store: ObjectStore,
  options: ClearOptions,
): Promise<void> {
  const { next } = options;
  await endSubscriptions(claim, store, next);

  const kept = new Set(next && planStorage(next).buckets.map(({ name }) => name));
  const made = await Array.fromAsync(everyBucket(store, { madeFor: claim.uid }));
  await allSettled(made.filter(({ name }) => !kept.has(name)).map((bucket) => releaseBucket(bucket, store, options)));
}

/** Ends the subscriptions that the current service does not have. */
async function endSubscriptions(
  { subscriptions }: Pick<StorageClaim, 'subscriptions'>,
  store: Pick<ObjectStore, 'unsubscribe'>,
  next: Service | undefined,
): Promise<void> {
  const needed = new Set(next && planStorage(next).subscriptions.map(subscriptionKey));
  const ended = subscriptions.filter((old) => !needed.has(subscriptionKey(old)));
  await allSettled(ended.map((subscription) => store.unsubscribe(subscription)));
}

async function releaseBucket(
  bucket: NewBucket,
  store: ObjectStore,
  { next, heirOf, onBucketKept }: ClearOptions,
): Promise<void> {
  const { name, owner: user, madeFor } = bucket;
  const heir = await heirOf(name);
  if (heir) {
    await store.changeBucket(name, { madeFor: { uid: heir.uid, service: heir.definition.name } });
    await updateBucketAccess(heir, store);
    return;
  }
  const isPersonal = isPersonalBucket(bucket);
  const isKept = isPersonal ? await hasFiles(name, store) : next !== undefined;
  if (!isKept) return store.removeBucket(name);
  await store.changeBucket(name, { visibility: 'private', allowedUsers: [], madeFor: null });
  if (isPersonal) onBucketKept?.({ bucket: name, user, service: madeFor?.service ?? '' });
}

/** Objects per page; the folders of a service are few. */
const LISTED = 100;

/** Whether a bucket has objects besides the folders that were created in it. */
async function hasFiles(bucket: string, store: ObjectStore): Promise<boolean> {
  let page = await store.objects(bucket, { limit: LISTED });
  for (;;) {
    if (page.items.some(({ key, bytes }) => bytes > 0 || !key.endsWith('/'))) return true;
    if (page.next === undefined) return false;
    page = await store.objects(bucket, { limit: LISTED, cursor: page.next });
  }
}

/** Two subscriptions with the same key are the same. */
const subscriptionKey = ({ bucket, prefix, subscriber }: Subscription) => JSON.stringify([bucket, prefix, subscriber]);

/** What a service needs in the store of its cluster (docs/go-manager.md#in-minio). */
interface StoragePlan {
  readonly buckets: readonly NewBucket[];
  readonly folders: readonly { readonly bucket: string; readonly folder: string }[];
  readonly subscriptions: readonly Subscription[];
}

/** Buckets and folders of its inputs and outputs, and a subscription per input. Other stores are not included. */
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
 * Subscribes every service to its inputs again: an external store may have lost a rule, or there was no address for events
 * when the service was created. Returns the number of subscriptions.
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
  // A request that changed or removed the service since it was listed has ended its subscriptions, possibly before this call
  // created them.
  await endSubscriptions({ subscriptions }, objects, (await services.get(service.definition.name))?.service);
  return subscriptions.length;
}

/** A store that a Go manager may have used. */
interface AdoptingStore {
  /**
   * Adopts a bucket that a Go manager created for the service of that name, if it belongs to one of these owners. Returns
   * false for any other bucket, and for one that is already adopted.
   */
  adopt(bucket: string, owners: readonly string[], madeFor: NonNullable<NewBucket['madeFor']>): Promise<boolean>;
}

/**
 * Links the buckets that a Go manager created to the uids of their services: a Go manager stores only the names. From then
 * on the buckets are removed with their services. Returns how many were adopted.
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
 * Creates the buckets that a service needs at named stores. Returns those that may have been created for it. If one fails,
 * the buckets that the previous version of the service does not use are removed again.
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

/** Removes the empty buckets at named stores that were created for a service and that its current version does not use. */
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
