/** What a request does, in S3's words, and what it is done to. */
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

/** Looking at a bucket: whoever reaches its objects may. */
export const LOOKING_ACTIONS = [
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

/** Changing a bucket itself: its owner alone. */
export const OWNING_ACTIONS = [
  's3:DeleteBucket',
  's3:PutBucketTagging',
  's3:PutBucketCORS',
  's3:GetBucketNotification',
] as const;

/** What only the manager does: which services an object wakes, and who may reach a bucket, is decided in OSCAR. */
export const MANAGING_ACTIONS = ['s3:PutBucketNotification', 's3:PutBucketPolicy'] as const;

export type ObjectAction = (typeof OBJECT_ACTIONS)[number];
export type BucketAction =
  | (typeof LOOKING_ACTIONS)[number]
  | (typeof OWNING_ACTIONS)[number]
  | (typeof MANAGING_ACTIONS)[number];

export type Action = ObjectAction | BucketAction;

const OBJECT: ReadonlySet<string> = new Set(OBJECT_ACTIONS);
const LOOKING: ReadonlySet<string> = new Set(LOOKING_ACTIONS);
const MANAGING: ReadonlySet<string> = new Set(MANAGING_ACTIONS);

export const isObjectAction = (action: Action) => OBJECT.has(action);
export const isLookingAction = (action: Action) => LOOKING.has(action);
export const isManagingAction = (action: Action) => MANAGING.has(action);
