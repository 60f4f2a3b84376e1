import type { JobRecord, StageOut } from '../cluster/index.ts';
import type { Service } from '../service/index.ts';
import { type Bucket, mayBucket, type ObjectStore } from '../storage/index.ts';
import { OWN_STORE } from './file-rights.ts';
import { userOf } from './user-of.ts';

/**
 * May the job's principal or the owner of the service write there? When the definition was taken its buckets were the
 * owner's; somebody else may have one of that name by now.
 */
export const mayWrite = (bucket: Bucket, service: Service, principal: string): boolean =>
  bucket.madeFor?.uid === service.uid ||
  [service.owner, principal].some((uid) => mayBucket(userOf(uid), 'use', bucket));

/** Those of our own store that a job may write to. One without a bucket stays: that it is missing is what is to be said. */
export async function writableOutputs(
  outputs: readonly StageOut[],
  service: Service,
  { principal }: Pick<JobRecord, 'principal'>,
  { objects }: { readonly objects: Pick<ObjectStore, 'bucket'> },
): Promise<StageOut[]> {
  const own = outputs.filter(({ store }) => store === OWN_STORE);
  const buckets = await Promise.all(own.map(({ bucket }) => objects.bucket(bucket)));
  return own.filter((_, index) => {
    const bucket = buckets[index];
    return !bucket || mayWrite(bucket, service, principal);
  });
}
