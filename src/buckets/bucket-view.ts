import { CLUSTER_ADMIN, formatQuantity } from '../model/service/index.ts';
import type { Bucket, StoredObject } from '../ports/index.ts';

/**
 * A bucket in answers of the API. The order of keys is fixed, because test suites match raw text
 * (docs/go-manager.md#buckets).
 */
export function bucketView(
  bucket: Bucket,
  managerName: string,
  options: { withOwner: boolean; objects?: readonly StoredObject[] },
) {
  const { name, visibility, allowedUsers, madeFor, ownerName, quota, usage } = bucket;
  const owner = bucket.owner === CLUSTER_ADMIN && !madeFor ? managerName : bucket.owner;
  const { objects = [] } = options;
  return {
    bucket_name: name,
    visibility,
    allowed_users: visibility === 'restricted' ? allowedUsers : null,
    owner,
    metadata: {
      ...(madeFor && { from_service: madeFor.service }),
      ...(options.withOwner && { owner }),
      owner_name: ownerName,
    },
    ...(objects.length > 0 && { objects: objects.map(objectView) }),
    storage_quota:
      quota === undefined ? { source: 'unset' } : { max: formatQuantity(quota), max_bytes: quota, source: 'bucket' },
    storage_usage: {
      used: formatQuantity(usage.bytes),
      used_bytes: usage.bytes,
      ...(usage.objects > 0 && { objects: usage.objects }),
    },
    attribution: 'complete',
  };
}

function objectView({ key, bytes, modifiedAt }: StoredObject) {
  return { object_name: key, size_bytes: bytes, last_modified: goTime(modifiedAt) };
}

/** As Go prints a time: `2026-11-15 20:13:16.73 +0000 UTC`, without the zeros at the end of the fraction. */
export function goTime(ms: number): string {
  const [date = '', time = ''] = new Date(ms).toISOString().replace('Z', '').split('T');
  return `${date} ${time.replace(/\.?0+$/, '')} +0000 UTC`;
}
