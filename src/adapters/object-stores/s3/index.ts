export {
  bucketLockName,
  describeHalfMadeBucket,
  isMadeByGoManager,
  isReservedBucket,
  matchesBucketQuery,
  parseBucketTags,
  ServiceBucketIndex,
  toBucketTags,
} from './bucket-metadata.ts';
export { EventTargetCache } from './event-rules.ts';
export { NamedStores } from './named-stores.ts';
export { PlainS3Store } from './plain-s3-store.ts';
export type { S3Api } from './s3-api.ts';
export { S3Store, type S3StoreOptions } from './s3-store.ts';
export { describePermanentFailure, hasErrorCode, SignedHttpClient, undefinedOn } from './signed-http-client.ts';
export type { StoreLock, StoreLocks } from './store-locks.ts';
