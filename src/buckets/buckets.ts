import { type Admin, ownerNameLabel, type User } from '../identity/index.ts';
import type { Cursor, Page } from '../lib/version.ts';
import { CLUSTER_ADMIN } from '../model/service/index.ts';
import {
  type Bucket,
  type BucketQuery,
  type ObjectStore,
  StorageError,
  type StoredObject,
  StoreError,
} from '../ports/index.ts';
import { readBucketBody } from './bucket-body.ts';

/** Creates a bucket that the caller owns. For a bucket of the administrator, the owner name is that of the manager. */
export async function createBucket(
  principal: Admin | User,
  body: unknown,
  store: ObjectStore,
  managerName: string,
): Promise<void> {
  const { name, folder, visibility, allowedUsers } = readBucketBody(body);
  const admin = principal.kind === 'admin';
  const outcome = await store.createBucket({
    name,
    owner: admin ? CLUSTER_ADMIN : principal.uid,
    ownerName: admin ? managerName : ownerNameLabel(principal.name),
    visibility,
    allowedUsers,
  });
  if (outcome !== 'created') {
    throw new StorageError('bucket-exists', `bucket "${name}" already exists: choose another name`);
  }
  if (folder !== '') await store.ensureFolder(name, folder);
}

/** All buckets that the caller may use, by name. The staging bucket is left out: the manager alone uses it. */
export async function listBuckets(principal: Admin | User, store: ObjectStore): Promise<Bucket[]> {
  const query = principal.kind === 'admin' ? {} : { visibleTo: principal.uid };
  const found = await Array.fromAsync(everyBucket(store, query));
  return found.filter((bucket) => bucket.name !== store.stagingBucket && mayBucket(principal, 'use', bucket));
}

/**
 * Finds a bucket for an action. Users get the same 403 for an unknown bucket and for one without access, as from the Go
 * manager (docs/go-manager.md#buckets). Whether a name is taken is no secret: a create reveals it.
 */
export async function findBucket(
  principal: Admin | User,
  action: BucketAction,
  name: string,
  store: ObjectStore,
): Promise<Bucket> {
  const bucket = await store.bucket(name);
  if (!bucket && principal.kind === 'admin') throw bucketNotFound(name);
  if (!bucket || !mayBucket(principal, action, bucket)) {
    throw new StorageError('bucket-refused', `bucket "${name}" not found, or you have no access to it`);
  }
  return bucket;
}

/** A page of the objects of a bucket whose keys begin with the prefix. */
export async function listObjects(
  bucket: Bucket,
  { page, prefix = '', limit }: { readonly page?: string; readonly prefix?: string; readonly limit: number },
  store: ObjectStore,
): Promise<Page<StoredObject>> {
  try {
    return await store.objects(bucket.name, { limit, prefix, ...(page && { cursor: page as Cursor }) });
  } catch (error) {
    if (!(error instanceof StoreError && error.code === 'expired')) throw error;
    throw new StorageError('invalid-bucket', 'page: is not a page token of this manager: start without it', {
      cause: error,
    });
  }
}

/** Changes visibility and allowed users. The bucket of a service follows the service (S8). */
export async function changeBucket(principal: Admin | User, body: unknown, store: ObjectStore): Promise<void> {
  const { name, visibility, allowedUsers } = readBucketBody(body);
  const { madeFor } = await findBucket(principal, 'manage', name, store);
  if (madeFor) {
    throw new StorageError(
      'bucket-refused',
      `the bucket "${name}" belongs to the service "${madeFor.service}": change the visibility of the service`,
    );
  }
  await store.changeBucket(name, { visibility, allowedUsers });
}

export async function removeBucket(principal: Admin | User, name: string, store: ObjectStore): Promise<void> {
  if (!(await store.bucket(name))) throw bucketNotFound(name);
  await findBucket(principal, 'manage', name, store);
  await store.removeBucket(name);
}

export function bucketNotFound(name: string): StorageError {
  return new StorageError('bucket-not-found', `there is no bucket "${name}"`);
}

export type BucketAction =
  /** See it, list, read and write its objects. */
  | 'use'
  /** Change its visibility, delete it. */
  | 'manage';

/**
 * Whether the caller may do this to a bucket. The owner may do everything. Users with whom it is shared may only use it: no
 * one can take over a public bucket (S8) or read a private one (S7).
 */
export function mayBucket(
  principal: Admin | User,
  action: BucketAction,
  bucket: Pick<Bucket, 'owner' | 'visibility' | 'allowedUsers'>,
): boolean {
  if (principal.kind === 'admin' || principal.uid === bucket.owner) return true;
  if (action === 'manage') return false;
  return (
    bucket.visibility === 'public' ||
    (bucket.visibility === 'restricted' && bucket.allowedUsers.includes(principal.uid))
  );
}

/** The buckets of all pages of a query. */
export async function* everyBucket(store: ObjectStore, query: Omit<BucketQuery, 'cursor'>): AsyncGenerator<Bucket> {
  let page = await store.buckets(query);
  yield* page.items;
  while (page.next !== undefined) {
    page = await store.buckets({ ...query, cursor: page.next });
    yield* page.items;
  }
}
