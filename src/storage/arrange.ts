import { isDeepStrictEqual } from 'node:util';
import { allSettled } from '../base/all-settled.ts';
import type { Service } from '../service/index.ts';
import { StorageError } from './errors.ts';
import { everyBucket } from './every-bucket.ts';
import type { NewBucket, ObjectStore, Subscription } from './object-store.ts';
import { storagePlan } from './service-buckets.ts';

/**
 * Makes what a service needs in the store, as far as it is not there yet. A bucket of somebody else is never used,
 * whatever its visibility: a service would be granted what its owner has no right to, and delete it in the end (S5).
 * Again: nothing changes, what is there stays as it is. If it fails, what was made carries the uid of the service, and `clearStorage` finds it.
 */
export async function arrangeStorage(service: Service, store: ObjectStore): Promise<void> {
  const plan = storagePlan(service);
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
export async function alignStorage(service: Service, store: ObjectStore): Promise<void> {
  const wanted = new Map(storagePlan(service).buckets.map((bucket) => [bucket.name, bucket]));
  const made = await Array.fromAsync(everyBucket(store, { madeFor: service.uid }));
  await allSettled(
    made.map(async ({ name, visibility, allowedUsers }) => {
      const want = wanted.get(name);
      if (!want || (want.visibility === visibility && isDeepStrictEqual(want.allowedUsers, allowedUsers))) return;
      await store.changeBucket(name, { visibility: want.visibility, allowedUsers: want.allowedUsers });
    }),
  );
}

/** What a service has in the store: its buckets carry its uid, its subscriptions are listed. */
export interface StorageClaim {
  readonly uid: string;
  readonly subscriptions: readonly Subscription[];
}

export const storageClaim = (service: Service): StorageClaim => ({
  uid: service.uid,
  subscriptions: storagePlan(service).subscriptions,
});

export interface ClearOptions {
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
export async function clearStorage(
  claim: StorageClaim,
  store: ObjectStore,
  { next, heirOf }: ClearOptions,
): Promise<void> {
  await endSubscriptions(claim, store, next);

  const kept = new Set(next && storagePlan(next).buckets.map(({ name }) => name));
  const made = await Array.fromAsync(everyBucket(store, { madeFor: claim.uid }));
  await allSettled(
    made
      .filter(({ name }) => !kept.has(name))
      .map(({ name }) => leaveBucket(name, store, { ...(next && { next }), heirOf })),
  );
}

/** Ends those subscriptions that the service as it is now does not have. */
export async function endSubscriptions(
  { subscriptions }: Pick<StorageClaim, 'subscriptions'>,
  store: Pick<ObjectStore, 'unsubscribe'>,
  next: Service | undefined,
): Promise<void> {
  const needed = next ? storagePlan(next).subscriptions : [];
  const ended = subscriptions.filter((old) => !needed.some((other) => sameSubscription(old, other)));
  await allSettled(ended.map((subscription) => store.unsubscribe(subscription)));
}

async function leaveBucket(name: string, store: ObjectStore, { next, heirOf }: ClearOptions): Promise<void> {
  const heir = await heirOf(name);
  if (heir) {
    await store.changeBucket(name, { madeFor: { uid: heir.uid, service: heir.definition.name } });
    await alignStorage(heir, store);
  } else if (next) await store.changeBucket(name, { visibility: 'private', allowedUsers: [], madeFor: null });
  else await store.removeBucket(name);
}

function sameSubscription(a: Subscription, b: Subscription): boolean {
  return a.bucket === b.bucket && a.prefix === b.prefix && a.subscriber === b.subscriber;
}
