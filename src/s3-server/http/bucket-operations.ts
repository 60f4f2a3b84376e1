import { canSeeBucket, isReservedName } from '../access/authorization.ts';
import { S3Error } from '../lib/errors.ts';
import { childElements, childText, type Element, readXml } from '../lib/xml.ts';
import type { Rule } from '../store/buckets.ts';
import { readCors } from './cors.ts';
import { type Exchange, formatIsoDate, NO_CONTENT, type S3Response, type Store, xml } from './exchange.ts';
import { MAX_BUCKET_TAGS, readTagging, tagSet } from './tagging.ts';

/** How many buckets are read from the database at once. */
const PAGE = 1000;

/** Lists the buckets that the caller can see. */
export function answerListBuckets(exchange: Exchange, { buckets, region }: Store): S3Response {
  const { identity, principal } = exchange.signer;
  const prefix = exchange.query('prefix') ?? '';
  const isHere = (exchange.query('bucket-region') || region) === region;
  const Bucket: { Name: string; CreationDate: string }[] = [];
  // There is no index for the buckets that a job's policy names, so all buckets are checked.
  const asked =
    identity.kind === 'user' || identity.kind === 'session'
      ? { limit: PAGE, reachableBy: identity.user }
      : { limit: PAGE };
  for (let page = buckets.page(asked); page.length > 0; ) {
    for (const bucket of page) {
      const wanted = isHere && bucket.name.startsWith(prefix) && canSeeBucket(identity, bucket);
      if (wanted) Bucket.push({ Name: bucket.name, CreationDate: formatIsoDate(bucket.created) });
    }
    page = page.length < PAGE ? [] : buckets.page({ ...asked, after: page.at(-1)?.name ?? '' });
  }
  return xml('ListAllMyBucketsResult', {
    Owner: { ID: principal, DisplayName: principal },
    Buckets: { Bucket },
    Prefix: prefix === '' ? undefined : prefix,
  });
}

/** Creates a private bucket of the caller. Keys of jobs and restricted sessions cannot create buckets. */
export async function answerCreateBucket(exchange: Exchange, { buckets, identities }: Store): Promise<S3Response> {
  const { bucket: name } = exchange.target;
  const { identity, principal: owner } = exchange.signer;
  const may =
    identity.kind === 'manager' || identity.kind === 'user' || (identity.kind === 'session' && !identity.policy);
  if (!may) throw new S3Error('AccessDenied', 'These keys are not allowed to create buckets.');
  if (isReservedName(name) && identity.kind !== 'manager') {
    throw new S3Error('AccessDenied', `Names that begin like ${name} are reserved for OSCAR: choose another one.`);
  }
  checkCreateConfiguration(await exchange.receiveText());
  identities.checkStillValid(exchange.signer);
  const existing = await buckets.create({ name, owner });
  if (!existing) return { status: 200, headers: { location: `/${name}` } };
  throw new S3Error(existing.owner === owner ? 'BucketAlreadyOwnedByYou' : 'BucketAlreadyExists');
}

/** A location in the request is ignored: this server has only one. */
function checkCreateConfiguration(text: string): void {
  if (text.trim() === '') return;
  const { children } = readXml(text, 'CreateBucketConfiguration');
  const unknown = children.find(({ name }) => name !== 'LocationConstraint');
  if (unknown) throw new S3Error('NotImplemented', `A bucket cannot be created with ${unknown.name} on this server.`);
}

export function headBucket(exchange: Exchange, { region }: Store): S3Response {
  exchange.authorize('s3:ListBucket');
  return { status: 200, headers: { 'x-amz-bucket-region': region } };
}

export async function deleteBucket(exchange: Exchange, { buckets, empty }: Store): Promise<S3Response> {
  exchange.authorize('s3:DeleteBucket');
  const still = exchange.bucketAtCommit('s3:DeleteBucket');
  empty(await buckets.remove(exchange.target.bucket, false, () => void still()));
  return NO_CONTENT;
}

export function getBucketLocation(exchange: Exchange, { region }: Store): S3Response {
  exchange.authorize('s3:GetBucketLocation');
  // S3 reports us-east-1 as an empty text.
  const body = region === 'us-east-1' ? '' : region;
  const namespace = 'http://s3.amazonaws.com/doc/2006-03-01/';
  return {
    status: 200,
    headers: { 'content-type': 'application/xml' },
    body: `<?xml version="1.0" encoding="UTF-8"?>\n<LocationConstraint xmlns="${namespace}">${body}</LocationConstraint>`,
  };
}

export function getBucketTagging(exchange: Exchange): S3Response {
  const { tags } = exchange.authorize('s3:GetBucketTagging');
  if (Object.keys(tags).length === 0) throw new S3Error('NoSuchTagSet');
  return xml('Tagging', tagSet(tags));
}

export async function putBucketTagging(exchange: Exchange, { buckets }: Store): Promise<S3Response> {
  exchange.authorize('s3:PutBucketTagging');
  const tags = readTagging(await exchange.receiveXml('Tagging'), MAX_BUCKET_TAGS);
  const still = exchange.bucketAtCommit('s3:PutBucketTagging');
  await buckets.update(exchange.target.bucket, { tags }, () => void still());
  return { status: 200 };
}

export async function deleteBucketTagging(exchange: Exchange, { buckets }: Store): Promise<S3Response> {
  exchange.authorize('s3:PutBucketTagging');
  const still = exchange.bucketAtCommit('s3:PutBucketTagging');
  await buckets.update(exchange.target.bucket, { tags: {} }, () => void still());
  return NO_CONTENT;
}

export function getBucketCors(exchange: Exchange): S3Response {
  const { cors } = exchange.authorize('s3:GetBucketCORS');
  if (cors === undefined) throw new S3Error('NoSuchCORSConfiguration');
  return { status: 200, headers: { 'content-type': 'application/xml' }, body: cors };
}

export async function putBucketCors(exchange: Exchange, { buckets }: Store): Promise<S3Response> {
  exchange.authorize('s3:PutBucketCORS');
  const cors = await exchange.receiveText();
  readCors(cors);
  const still = exchange.bucketAtCommit('s3:PutBucketCORS');
  await buckets.update(exchange.target.bucket, { cors }, () => void still());
  return { status: 200 };
}

export async function deleteBucketCors(exchange: Exchange, { buckets }: Store): Promise<S3Response> {
  exchange.authorize('s3:PutBucketCORS');
  const still = exchange.bucketAtCommit('s3:PutBucketCORS');
  await buckets.update(exchange.target.bucket, { cors: null }, () => void still());
  return NO_CONTENT;
}

/** The only target of events: the outbox. */
const queueArn = (region: string) => `arn:minio:sqs:${region}:OSCAR:webhook`;

export function getBucketNotification(exchange: Exchange, { region }: Store): S3Response {
  const { rules } = exchange.authorize('s3:GetBucketNotification');
  const QueueConfiguration = rules.map(({ id, prefix, suffix }) => ({
    Id: id,
    Queue: queueArn(region),
    Event: 's3:ObjectCreated:*',
    Filter: {
      S3Key: {
        FilterRule: [{ Name: 'prefix', Value: prefix }, ...(suffix === '' ? [] : [{ Name: 'suffix', Value: suffix }])],
      },
    },
  }));
  return xml('NotificationConfiguration', { QueueConfiguration });
}

export async function putBucketNotification(exchange: Exchange, { buckets }: Store): Promise<S3Response> {
  exchange.authorize('s3:PutBucketNotification');
  const document = await exchange.receiveXml('NotificationConfiguration');
  if (document.children.some(({ name }) => name !== 'QueueConfiguration')) {
    throw new S3Error('InvalidArgument', 'Only QueueConfiguration is supported: events go to OSCAR.');
  }
  const rules = document.children.map((configuration, index) => readRule(configuration, index));
  const still = exchange.bucketAtCommit('s3:PutBucketNotification');
  await buckets.replaceRules(exchange.target.bucket, rules, () => void still());
  return { status: 200 };
}

function readRule(configuration: Element, index: number): Rule {
  const events = childElements(configuration, 'Event').map(({ text }) => text.trim());
  if (events.length === 0 || !events.every((event) => event === 's3:ObjectCreated:*')) {
    throw new S3Error('InvalidArgument', 'A rule is for the event s3:ObjectCreated:*.');
  }
  const filters = childElements(configuration, 'Filter').flatMap((filter) => childElements(filter, 'S3Key'));
  const rules = filters.flatMap((key) => childElements(key, 'FilterRule'));
  const valueOf = (name: string) => {
    const rule = rules.find((each) => childText(each, 'Name')?.trim().toLowerCase() === name);
    return rule ? (childText(rule, 'Value') ?? '') : '';
  };
  const id = childText(configuration, 'Id')?.trim() || `rule-${index + 1}`;
  return { id, prefix: valueOf('prefix'), suffix: valueOf('suffix') };
}

/** Versioning is never enabled, so the response has no status. */
export function getBucketVersioning(exchange: Exchange): S3Response {
  exchange.authorize('s3:GetBucketVersioning');
  return xml('VersioningConfiguration', {});
}

/** The owner has full control. ACLs cannot express OSCAR's visibility and allowed users, so nobody else is listed. */
export function getAcl(exchange: Exchange): S3Response {
  const { owner } =
    exchange.target.key === '' ? exchange.authorize('s3:GetBucketAcl') : exchange.authorize('s3:GetObject');
  const namespace = 'http://www.w3.org/2001/XMLSchema-instance';
  const grantee = `<Grantee xmlns:xsi="${namespace}" xsi:type="CanonicalUser"><ID></ID><DisplayName></DisplayName></Grantee>`;
  const answer = xml('AccessControlPolicy', {
    Owner: { ID: owner, DisplayName: owner },
    AccessControlList: { Grant: { Grantee: '', Permission: 'FULL_CONTROL' } },
  });
  return { ...answer, body: String(answer.body).replace('<Grantee></Grantee>', grantee) };
}

export function getBucketPolicy(exchange: Exchange): S3Response {
  exchange.authorize('s3:GetBucketPolicy');
  throw new S3Error('NoSuchBucketPolicy');
}

export function rejectBucketPolicyChange(exchange: Exchange): S3Response {
  exchange.authorize('s3:GetBucketPolicy');
  throw new S3Error(
    'AccessDenied',
    'Who may reach a bucket is set through OSCAR: change its visibility and allowed users there.',
  );
}

export function getObjectLockConfiguration(exchange: Exchange): S3Response {
  exchange.authorize('s3:GetBucketObjectLockConfiguration');
  throw new S3Error('ObjectLockConfigurationNotFoundError');
}

export function getBucketLifecycle(exchange: Exchange): S3Response {
  exchange.authorize('s3:GetLifecycleConfiguration');
  throw new S3Error('NoSuchLifecycleConfiguration');
}

export function getBucketEncryption(exchange: Exchange): S3Response {
  exchange.authorize('s3:GetEncryptionConfiguration');
  throw new S3Error('ServerSideEncryptionConfigurationNotFoundError');
}
