import type { RemoteBucket } from '../model/service/index.ts';
import type { NewBucket } from './object-store.ts';

/** A bucket that a service needs at a store which the operator named. */
export interface ProviderBucket extends RemoteBucket, Required<Pick<NewBucket, 'owner' | 'ownerName' | 'madeFor'>> {}

/**
 * The stores that the operator named (`OSCAR_STORAGE_PROVIDERS`), as far as they have buckets. Other clusters and programs
 * may use the same stores, so a bucket there is recorded with its owner and the service it was made for, where the store
 * can keep that, and nothing is removed from it.
 */
export interface ProviderBuckets {
  /** Whether this is a store of the operator. */
  has(store: string): boolean;

  /**
   * Creates the bucket if it does not exist. Throws `bucket-taken` if it is recorded as another owner's, `provider-refused` if
   * the store does not allow it, and `provider-unavailable` if the store does not answer. Calling it again is a no-op.
   *
   * A bucket that a second service begins to use no longer goes with the first one.
   */
  ensure(bucket: ProviderBucket): Promise<void>;

  /**
   * Removes the bucket if it was made for the service of this uid and is empty. Never throws: what cannot be removed is
   * reported to the operator and stays.
   */
  remove(bucket: RemoteBucket, uid: string): Promise<void>;
}
