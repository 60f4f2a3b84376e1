export { S3Error } from './errors.ts';
export type { BucketView, ObjectStoreServer } from './object-store-server.ts';
export { type ObjectStoreOptions, openObjectStore } from './open.ts';
export type { Seal } from './store/identities.ts';
