import { S3Error } from '../lib/errors.ts';
import { compileWildcard, type TextMatcher } from '../lib/wildcard.ts';

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

/**
 * The supported part of a policy document: Version 2012-10-17, Allow and Deny, Action, Resource, and conditions on
 * `s3:prefix`. A document with anything else is rejected when it is parsed, so that an element that this server does
 * not know never grants a right.
 */
export interface Policy {
  readonly statements: readonly Statement[];
}

interface Statement {
  readonly allow: boolean;
  readonly actions: readonly TextMatcher[];
  readonly resources: readonly TextMatcher[];
  /** One list for each condition, of which one must match. */
  readonly prefixes: readonly (readonly TextMatcher[])[];
}

/** The request that a policy is evaluated for. */
interface PolicyRequest {
  readonly action: string;
  readonly bucket: string;
  readonly key: string;
  /** The prefix of a listing; empty if the listing has none. */
  readonly prefix: string;
}

const ARN = 'arn:aws:s3:::';

/** An explicit Deny wins; without an Allow the request is denied. */
export function permits({ statements }: Policy, question: PolicyRequest): boolean {
  let allowed = false;
  for (const statement of statements) {
    if (!applies(statement, question)) continue;
    if (!statement.allow) return false;
    allowed = true;
  }
  return allowed;
}

function applies({ actions, resources, prefixes }: Statement, question: PolicyRequest): boolean {
  if (!actions.some((matches) => matches(question.action))) return false;
  // In MinIO `bucket/*` also matches the bucket itself, and OSCAR's policies rely on it (docs/go-manager.md#in-minio).
  const names = question.key === '' ? [question.bucket, `${question.bucket}/`] : [`${question.bucket}/${question.key}`];
  if (!resources.some((matches) => names.some(matches))) return false;
  return prefixes.every((values) => values.some((matches) => matches(question.prefix)));
}

/** The longest policy of a job in characters: enough for a few hundred resources. */
const LONGEST = 65_536;

/**
 * The longest policy of a session in characters, as in STS of AWS and of MinIO. A user writes it, and the store evaluates it
 * for each request with its keys, and for each key of a bulk delete.
 */
export const LONGEST_SESSION_POLICY = 2_048;

export function readPolicy(text: string): Policy {
  if (text.length > LONGEST) throw malformedPolicy(`is longer than ${LONGEST} characters`);
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (cause) {
    throw malformedPolicy('is not JSON', cause);
  }
  const { Version, Statement, Id, ...others } = readObject(document, 'is not an object');
  if (Version !== '2012-10-17') throw malformedPolicy('must have Version 2012-10-17');
  if (Id !== undefined && typeof Id !== 'string') throw malformedPolicy('has an Id that is not a text');
  rejectUnknownKeys(others);
  const statements = (Array.isArray(Statement) ? Statement : [Statement]).map(readStatement);
  if (statements.length === 0) throw malformedPolicy('has no Statement');
  return { statements };
}

function readStatement(value: unknown): Statement {
  const { Sid, Effect, Action, Resource, Condition, ...others } = readObject(
    value,
    'has a Statement that is not an object',
  );
  rejectUnknownKeys(others);
  if (Sid !== undefined && typeof Sid !== 'string') throw malformedPolicy('has a Sid that is not a text');
  if (Effect !== 'Allow' && Effect !== 'Deny')
    throw malformedPolicy('has a Statement whose Effect is neither Allow nor Deny');
  const actions = readTexts(Action, 'Action');
  if (!actions.every((action) => /^(\*|s3:[A-Za-z*?]+)$/.test(action)))
    throw malformedPolicy('has an Action that is not an s3 action');
  const resources = readTexts(Resource, 'Resource').map((resource) => {
    if (resource === '*') return resource;
    if (!resource.startsWith(ARN) || resource.length === ARN.length)
      throw malformedPolicy(`has a Resource that does not begin with ${ARN}`);
    return resource.slice(ARN.length);
  });
  return {
    allow: Effect === 'Allow',
    actions: actions.map(compileWildcard),
    resources: resources.map(compileWildcard),
    prefixes: readConditions(Condition),
  };
}

function readConditions(value: unknown): TextMatcher[][] {
  if (value === undefined) return [];
  return Object.entries(readObject(value, 'has a Condition that is not an object')).flatMap(([operator, tests]) => {
    if (operator !== 'StringLike' && operator !== 'StringEquals')
      throw malformedPolicy(
        `has the condition operator ${operator}, which is not supported: use StringLike or StringEquals`,
      );
    return Object.entries(readObject(tests, 'has a condition that is not an object')).map(([name, values]) => {
      if (name !== 's3:prefix')
        throw malformedPolicy(`has a condition on ${name}, which is not supported: use s3:prefix`);
      return readTexts(values, name).map(operator === 'StringLike' ? compileWildcard : matchExactly);
    });
  });
}

const matchExactly =
  (value: string): TextMatcher =>
  (text) =>
    text === value;

function readTexts(value: unknown, name: string): string[] {
  const list: unknown[] = Array.isArray(value) ? value : [value];
  const texts = list.filter((each) => typeof each === 'string');
  if (texts.length === 0 || texts.length < list.length)
    throw malformedPolicy(`needs ${name}: a text or a list of texts`);
  return texts;
}

function readObject(value: unknown, why: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw malformedPolicy(why);
  return { ...value };
}

function rejectUnknownKeys(others: Record<string, unknown>): void {
  const [name] = Object.keys(others);
  if (name !== undefined) throw malformedPolicy(`has ${name}, which is not supported`);
}

function malformedPolicy(why: string, cause?: unknown): S3Error {
  return new S3Error('MalformedPolicy', `The policy ${why}.`, { cause });
}
