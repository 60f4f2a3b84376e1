import type { Admin, User } from '../identity/index.ts';
import type { Bucket } from './object-store.ts';

export type BucketAction =
  /** See it, list, read and write its objects. */
  | 'use'
  /** Change its visibility, delete it. */
  | 'manage';

/**
 * May somebody do that to a bucket? Everything an owner may; whoever it is shared with uses it and no more: nobody
 * takes over a public bucket (S8) or looks into a private one (S7).
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
