export { adoptBuckets } from './adopt-buckets.ts';
export { alignStorage, arrangeStorage, clearStorage, type StorageClaim, storageClaim } from './arrange.ts';
export { mayBucket } from './bucket-rules.ts';
export { bucketView } from './bucket-view.ts';
export { changeBucket, createBucket, findBucket, listBuckets, listObjects, removeBucket } from './buckets.ts';
export type { StorageErrorCode } from './errors.ts';
export { readStorageEvents, type StorageEvent } from './event.ts';
export { eventJobName, jobName } from './event-job.ts';
export type { Backlog, EventSource, KeptEvent } from './event-source.ts';
export {
  type Bucket,
  type KeyScope,
  type ObjectStore,
  type StoredObject,
  type StoreKeys,
} from './object-store.ts';
export { presignObject } from './presign.ts';
export { renewSubscriptions } from './renew-subscriptions.ts';
export { ObjectShelf } from './shelf.ts';
export { StoreCount } from './store-count.ts';
export { ensureUserKeys, rotateUserKeys } from './user-keys.ts';
