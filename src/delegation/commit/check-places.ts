import type { JobRecord, PlannedUpload } from '../../cluster/index.ts';
import type { User } from '../../identity/index.ts';
import type { Service } from '../../service/index.ts';
import { type Bucket, mayBucket, type ObjectStore } from '../../storage/index.ts';
import { OutputFailed } from './output-failed.ts';

/**
 * May the job's principal or the owner of the service write to these places of our own store? When the definition was
 * taken the buckets were the owner's; what has happened to them since counts as well.
 */
export async function checkPlaces(
  files: readonly PlannedUpload[],
  service: Service,
  { principal }: Pick<JobRecord, 'principal'>,
  { objects }: { readonly objects: Pick<ObjectStore, 'bucket'> },
): Promise<void> {
  const names = [...new Set(files.map(({ to }) => to.bucket))];
  const buckets = await Promise.all(names.map(async (name) => ({ name, bucket: await objects.bucket(name) })));
  for (const { name, bucket } of buckets) {
    if (!bucket) throw new OutputFailed(`the outputs cannot be written: the bucket "${name}" does not exist`);
    if (!mayWrite(bucket, service, principal)) {
      throw new OutputFailed(
        `the outputs cannot be written: neither the owner of the service nor "${principal}" may write to the bucket "${name}"`,
      );
    }
  }
}

const mayWrite = (bucket: Bucket, service: Service, principal: string) =>
  bucket.madeFor?.uid === service.uid ||
  [service.owner, principal].some((uid) => mayBucket(userOf(uid), 'use', bucket));

/** A principal for the rules of buckets. The administrator's services work with the rights of no user. */
const userOf = (uid: string): User => ({ kind: 'user', uid, name: uid, groups: [], operator: false });
