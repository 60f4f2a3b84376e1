export { bucketView } from './bucket-view.ts';
export {
  changeBucket,
  createBucket,
  everyBucket,
  findBucket,
  listBuckets,
  listObjects,
  mayBucket,
  removeBucket,
} from './buckets.ts';
export { PRESIGNED_OPERATIONS, presignObject } from './presign.ts';
export { StoreCount } from './store-count.ts';
export { ensureUserKeys, rotateUserKeys } from './user-keys.ts';
