import { isDeepStrictEqual } from 'node:util';
import type { PolicyDocument } from './wire/admin.ts';

/**
 * What whoever reaches a bucket may do there: the same for its owner and for others, as in OSCAR itself. The bucket's
 * own tags, rules and policy are not among it (the Go manager gives `s3:*`): who owns a bucket is written in its tags, so
 * that one who may write those takes it over (S8).
 */
const USE = [
  's3:AbortMultipartUpload',
  's3:DeleteObject',
  's3:DeleteObjectTagging',
  's3:GetBucketLocation',
  's3:GetBucketTagging',
  's3:GetBucketVersioning',
  's3:GetObject',
  's3:GetObjectTagging',
  's3:ListBucket',
  's3:ListBucketMultipartUploads',
  's3:ListBucketVersions',
  's3:ListMultipartUploadParts',
  's3:PutObject',
  's3:PutObjectTagging',
];

/** A policy must say something. In the place of no bucket the Go manager denies one that is none (contract §4.4). */
const NOTHING = { Effect: 'Deny', Action: ['s3:*'], Resource: [resourceOf('oscar-no-bucket')] };

/** The bucket with all that is in it. MinIO takes this for the bucket itself too. */
function resourceOf(bucket: string): string {
  return `arn:aws:s3:::${bucket}/*`;
}

/** The bucket that a resource is all of; undefined when it is something else. */
const bucketIn = (resource: string) => /^arn:aws:s3:::([a-z0-9.-]+)\/\*$/.exec(resource)?.[1];

type Statement = PolicyDocument['Statement'][number];

/** Statements that let somebody use buckets, and nothing else: those are ours, or the Go manager's. */
const isOurs = ({ Effect, Resource = [] }: Statement) =>
  Effect === 'Allow' && Resource.length > 0 && Resource.every((resource) => bucketIn(resource) !== undefined);

const isNothing = ({ Effect, Resource = [] }: Statement) =>
  Effect === 'Deny' && Resource.length === 1 && Resource[0] === NOTHING.Resource[0];

/** The buckets that a policy lets somebody use. */
export function bucketsIn(document: PolicyDocument | undefined): Set<string> {
  const resources = (document?.Statement ?? []).filter(isOurs).flatMap(({ Resource = [] }) => Resource);
  return new Set(resources.map((resource) => bucketIn(resource) ?? ''));
}

/** The same policy for other buckets. What an operator has added to it stays. */
export function withBuckets(document: PolicyDocument | undefined, buckets: ReadonlySet<string>): PolicyDocument {
  const others = (document?.Statement ?? []).filter((statement) => !isOurs(statement) && !isNothing(statement));
  const Resource = [...buckets].toSorted().map(resourceOf);
  const statements = buckets.size > 0 ? [{ Effect: 'Allow', Action: USE, Resource }, ...others] : others;
  return { Version: '2012-10-17', Statement: statements.length > 0 ? statements : [NOTHING] };
}

/** The same policy without one of its buckets. Whatever else it says stays. */
export function withoutBucket(document: PolicyDocument, bucket: string): PolicyDocument {
  const statements = document.Statement.flatMap((statement) => {
    if (!isOurs(statement)) return [statement];
    const Resource = statement.Resource?.filter((resource) => resource !== resourceOf(bucket)) ?? [];
    return Resource.length > 0 ? [{ ...statement, Resource }] : [];
  });
  return { Version: document.Version, Statement: statements.length > 0 ? statements : [NOTHING] };
}

/** Do they say the same? The store has an order of its own. */
export function isSame(one: PolicyDocument, other: PolicyDocument): boolean {
  const sorted = ({ Statement }: PolicyDocument) =>
    Statement.map(({ Effect, Action = [], Resource = [] }) => [Effect, Action.toSorted(), Resource.toSorted()]);
  return isDeepStrictEqual(sorted(one), sorted(other));
}

/** Is it for this bucket, and for nothing else? */
export function isOnlyFor(bucket: string, document: PolicyDocument): boolean {
  return (
    document.Statement.every((statement) => isOurs(statement)) &&
    [...bucketsIn(document)].every((name) => name === bucket)
  );
}
