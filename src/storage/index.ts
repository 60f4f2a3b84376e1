export { alignStorage, arrangeStorage, clearStorage, type StorageClaim, storageClaim } from './arrange.ts';
export { bucketView } from './bucket-view.ts';
export { changeBucket, createBucket, findBucket, listBuckets, listObjects, removeBucket } from './buckets.ts';
export type { StorageErrorCode } from './errors.ts';
export type { ObjectStore, StoreKeys } from './object-store.ts';
export { presignObject } from './presign.ts';
export { ensureUserKeys, rotateUserKeys } from './user-keys.ts';
