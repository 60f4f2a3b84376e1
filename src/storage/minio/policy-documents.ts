import { isDeepStrictEqual } from 'node:util';
import type { PolicyDocument, Statement } from './wire/admin.ts';

/**
 * What whoever reaches a bucket may do there: the same for its owner and for others, as in OSCAR itself. The bucket's
 * own tags, rules and policy are not among it (the Go manager gives `s3:*`): who owns a bucket is written in its tags, so
 * that one who may write those takes it over (S8). Whoever changes the list keeps the old one below, or what was written
 * with it is taken for an operator's.
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

/** What the Go manager lets people do with what is theirs or everybody's, and with what is shared with them (§4.4). */
const USE_OF_GO = [['s3:*'], ['s3:DeleteObject', 's3:GetObject', 's3:ListBucket', 's3:PutObject']];

/** Does it let somebody do something with whole buckets, and with nothing else? */
const isOfBuckets = ({ Effect, Resource = [] }: Statement) =>
  Effect === 'Allow' && Resource.length > 0 && Resource.every((resource) => bucketIn(resource) !== undefined);

/**
 * Statements that let somebody use buckets as we write them, or the Go manager. What allows less, or under a condition, is
 * an operator's: nobody has the use of a bucket by it. Only their name makes no difference.
 */
function isOurs(statement: Statement): boolean {
  const { Sid: _name, Effect: _allow, Action = [], Resource: _buckets, ...more } = statement;
  const actions = Action.toSorted();
  const isUse = [USE, ...USE_OF_GO].some((use) => isDeepStrictEqual(actions, use));
  return isOfBuckets(statement) && isUse && Object.keys(more).length === 0;
}

const isNothing = ({ Effect, Resource = [] }: Statement) =>
  Effect === 'Deny' && Resource.length === 1 && Resource[0] === NOTHING.Resource[0];

/** The buckets that a policy lets somebody use. */
export function bucketsIn(document: PolicyDocument | undefined): Set<string> {
  const resources = (document?.Statement ?? []).filter(isOurs).flatMap(({ Resource = [] }) => Resource);
  return new Set(resources.map((resource) => bucketIn(resource) ?? ''));
}

/** Does it let somebody do anything with this bucket, whoever wrote that? */
export function isNamedIn(bucket: string, document: PolicyDocument): boolean {
  const resource = resourceOf(bucket);
  return document.Statement.some((statement) => isOfBuckets(statement) && statement.Resource?.includes(resource));
}

/** The same policy for other buckets. What an operator has added to it stays. */
export function withBuckets(document: PolicyDocument | undefined, buckets: ReadonlySet<string>): PolicyDocument {
  const others = (document?.Statement ?? []).filter((statement) => !isOurs(statement) && !isNothing(statement));
  const Resource = [...buckets].toSorted().map(resourceOf);
  const statements = buckets.size > 0 ? [{ Effect: 'Allow', Action: USE, Resource }, ...others] : others;
  return { ...document, Version: '2012-10-17', Statement: statements.length > 0 ? statements : [NOTHING] };
}

/** The same policy without one of its buckets, whoever put it there. Whatever else it says stays. */
export function withoutBucket(document: PolicyDocument, bucket: string): PolicyDocument {
  const statements = document.Statement.flatMap((statement) => {
    if (!isOfBuckets(statement)) return [statement];
    const Resource = statement.Resource?.filter((resource) => resource !== resourceOf(bucket)) ?? [];
    return Resource.length > 0 ? [{ ...statement, Resource }] : [];
  });
  return { ...document, Statement: statements.length > 0 ? statements : [NOTHING] };
}

/** Do they say the same? The store has an order of its own. */
export function isSame(one: PolicyDocument, other: PolicyDocument): boolean {
  const sorted = ({ Statement }: PolicyDocument) =>
    Statement.map(({ Action = [], Resource = [], ...more }) => [more, Action.toSorted(), Resource.toSorted()]);
  return isDeepStrictEqual(sorted(one), sorted(other));
}

/** Is it for this bucket, and for nothing else? One for no bucket was left by somebody who died over it, and is nobody's. */
export function isOnlyFor(bucket: string, document: PolicyDocument): boolean {
  return (
    document.Statement.every((statement) => isOurs(statement) || isNothing(statement)) &&
    [...bucketsIn(document)].every((name) => name === bucket)
  );
}
