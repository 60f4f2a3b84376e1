import { type Action, isLookingAction, isManagingAction, isObjectAction } from './actions.ts';
import { type Policy, permits } from './policy.ts';

export type Visibility = 'private' | 'restricted' | 'public';

/** Who asks. */
export type Identity =
  | { readonly kind: 'anonymous' }
  /** OSCAR itself. */
  | { readonly kind: 'manager' }
  | { readonly kind: 'user'; readonly user: string }
  /** Keys that the manager issued for a job: the policy is the whole right (design §5). */
  | { readonly kind: 'job'; readonly user: string; readonly policy: Policy }
  /** Keys that a user got through STS: the policy narrows the user's right. */
  | { readonly kind: 'session'; readonly user: string; readonly policy?: Policy };

/** What decides who reaches a bucket. */
export interface BucketFacts {
  readonly name: string;
  readonly owner: string;
  readonly visibility: Visibility;
  readonly allowedUsers: readonly string[];
}

export interface Access {
  readonly action: Action;
  readonly bucket: BucketFacts;
  /** Empty for the bucket itself. */
  readonly key: string;
  /** Of a listing. */
  readonly prefix?: string;
}

/** The manager's own buckets (design §5): beside it only jobs whose policy names them come in. */
export function isReservedName(bucket: string): boolean {
  return bucket.startsWith('oscar-staging') || bucket.startsWith('oscar-events');
}

/** May `identity` do this? The one place that decides it. */
export function allowed(identity: Identity, access: Access): boolean {
  switch (identity.kind) {
    case 'anonymous':
      return false;
    case 'manager':
      return true;
    case 'user':
      return userMay(identity.user, access);
    case 'session':
      return userMay(identity.user, access) && (!identity.policy || policyPermits(identity.policy, access));
    case 'job':
      return !isManagingAction(access.action) && policyPermits(identity.policy, access);
  }
}

/** Does the caller get to know that the bucket exists, as an entry of the list of buckets? */
export function reaches(identity: Identity, bucket: BucketFacts): boolean {
  return allowed(identity, { action: 's3:ListBucket', bucket, key: '' });
}

function policyPermits(policy: Policy, { action, bucket, key, prefix = '' }: Access): boolean {
  return permits(policy, { action, bucket: bucket.name, key, prefix });
}

function userMay(user: string, { action, bucket }: Access): boolean {
  if (isReservedName(bucket.name) || isManagingAction(action)) return false;
  if (bucket.owner === user) return true;
  if (!isObjectAction(action) && !isLookingAction(action)) return false;
  if (bucket.visibility === 'public') return true;
  return bucket.visibility === 'restricted' && bucket.allowedUsers.includes(user);
}
