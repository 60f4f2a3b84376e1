import { type Policy, permits } from './policy.ts';

export type BucketVisibility = 'private' | 'restricted' | 'public';

/** The identity that signed a request. */
export type S3Identity =
  | { readonly kind: 'anonymous' }
  /** The manager itself. */
  | { readonly kind: 'manager' }
  | { readonly kind: 'user'; readonly user: string }
  /** Keys that the manager issued for a job: only the policy grants rights (docs/security.md#jobs-and-their-keys). */
  | { readonly kind: 'job'; readonly user: string; readonly policy: Policy }
  /** Keys that a user got through STS: the policy restricts the user's rights. */
  | { readonly kind: 'session'; readonly user: string; readonly policy?: Policy };

/** The facts about a bucket on which access depends. */
export interface BucketAccessFacts {
  readonly name: string;
  readonly owner: string;
  readonly visibility: BucketVisibility;
  readonly allowedUsers: readonly string[];
}

interface Access {
  readonly action: S3Action;
  readonly bucket: BucketAccessFacts;
  /** Empty for the bucket itself. */
  readonly key: string;
  /** The prefix of a listing. */
  readonly prefix?: string;
}

/**
 * Names of the manager's own buckets (docs/security.md#buckets). Apart from it, only jobs whose policy names them have
 * access.
 */
export function isReservedName(bucket: string): boolean {
  return bucket.startsWith('oscar-staging') || bucket.startsWith('oscar-events');
}

/** Whether `identity` is allowed to do this. All access decisions of the store are made here. */
export function isAllowed(identity: S3Identity, access: Access): boolean {
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
      return !isManagerAction(access.action) && policyPermits(identity.policy, access);
  }
}

/** Whether the list of buckets shows this bucket to the caller. */
export function canSeeBucket(identity: S3Identity, bucket: BucketAccessFacts): boolean {
  return isAllowed(identity, { action: 's3:ListBucket', bucket, key: '' });
}

function policyPermits(policy: Policy, { action, bucket, key, prefix = '' }: Access): boolean {
  return permits(policy, { action, bucket: bucket.name, key, prefix });
}

function userMay(user: string, { action, bucket }: Access): boolean {
  if (isReservedName(bucket.name) || isManagerAction(action)) return false;
  if (bucket.owner === user) return true;
  if (!isObjectAction(action) && !isBucketReadAction(action)) return false;
  if (bucket.visibility === 'public') return true;
  return bucket.visibility === 'restricted' && bucket.allowedUsers.includes(user);
}

/** Actions on objects, in S3's names. */
export const OBJECT_ACTIONS = [
  's3:GetObject',
  's3:PutObject',
  's3:DeleteObject',
  's3:AbortMultipartUpload',
  's3:ListMultipartUploadParts',
  's3:GetObjectTagging',
  's3:PutObjectTagging',
  's3:DeleteObjectTagging',
] as const;

/** Actions that read a bucket: allowed to everyone who has access to its objects. */
export const BUCKET_READ_ACTIONS = [
  's3:ListBucket',
  's3:ListBucketVersions',
  's3:ListBucketMultipartUploads',
  's3:GetBucketLocation',
  's3:GetBucketVersioning',
  's3:GetBucketAcl',
  's3:GetBucketTagging',
  's3:GetBucketCORS',
  's3:GetBucketPolicy',
  's3:GetBucketObjectLockConfiguration',
  's3:GetLifecycleConfiguration',
  's3:GetEncryptionConfiguration',
] as const;

/** Actions on the bucket itself: allowed to its owner. */
export const BUCKET_OWNER_ACTIONS = [
  's3:DeleteBucket',
  's3:PutBucketTagging',
  's3:PutBucketCORS',
  's3:GetBucketNotification',
] as const;

/** Actions of the manager alone: notification rules and access to a bucket are configured through OSCAR. */
export const MANAGER_ACTIONS = ['s3:PutBucketNotification', 's3:PutBucketPolicy'] as const;

type ObjectAction = (typeof OBJECT_ACTIONS)[number];
type BucketAction =
  | (typeof BUCKET_READ_ACTIONS)[number]
  | (typeof BUCKET_OWNER_ACTIONS)[number]
  | (typeof MANAGER_ACTIONS)[number];

export type S3Action = ObjectAction | BucketAction;

const OBJECT: ReadonlySet<string> = new Set(OBJECT_ACTIONS);
const BUCKET_READ: ReadonlySet<string> = new Set(BUCKET_READ_ACTIONS);
const MANAGER: ReadonlySet<string> = new Set(MANAGER_ACTIONS);

const isObjectAction = (action: S3Action) => OBJECT.has(action);
const isBucketReadAction = (action: S3Action) => BUCKET_READ.has(action);
const isManagerAction = (action: S3Action) => MANAGER.has(action);
