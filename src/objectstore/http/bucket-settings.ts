import { S3Error } from '../errors.ts';
import type { Rule } from '../store/bucket.ts';
import { all, type Element, textOf } from '../xml/read-xml.ts';
import { type Answer, NO_CONTENT, xml } from './answer.ts';
import { readCors } from './cors.ts';
import type { Exchange, Store } from './exchange.ts';
import { OF_BUCKET, readTagging, tagSet } from './tags.ts';

export function getBucketTagging(exchange: Exchange): Answer {
  const { tags } = exchange.authorise('s3:GetBucketTagging');
  if (Object.keys(tags).length === 0) throw new S3Error('NoSuchTagSet');
  return xml('Tagging', tagSet(tags));
}

export async function putBucketTagging(exchange: Exchange, { buckets }: Store): Promise<Answer> {
  exchange.authorise('s3:PutBucketTagging');
  const tags = readTagging(await exchange.receiveXml('Tagging'), OF_BUCKET);
  const still = exchange.still('s3:PutBucketTagging');
  await buckets.update(exchange.target.bucket, { tags }, () => void still());
  return { status: 200 };
}

export async function deleteBucketTagging(exchange: Exchange, { buckets }: Store): Promise<Answer> {
  exchange.authorise('s3:PutBucketTagging');
  const still = exchange.still('s3:PutBucketTagging');
  await buckets.update(exchange.target.bucket, { tags: {} }, () => void still());
  return NO_CONTENT;
}

export function getBucketCors(exchange: Exchange): Answer {
  const { cors } = exchange.authorise('s3:GetBucketCORS');
  if (cors === undefined) throw new S3Error('NoSuchCORSConfiguration');
  return { status: 200, headers: { 'content-type': 'application/xml' }, body: cors };
}

export async function putBucketCors(exchange: Exchange, { buckets }: Store): Promise<Answer> {
  exchange.authorise('s3:PutBucketCORS');
  const cors = await exchange.receiveText();
  readCors(cors);
  const still = exchange.still('s3:PutBucketCORS');
  await buckets.update(exchange.target.bucket, { cors }, () => void still());
  return { status: 200 };
}

export async function deleteBucketCors(exchange: Exchange, { buckets }: Store): Promise<Answer> {
  exchange.authorise('s3:PutBucketCORS');
  const still = exchange.still('s3:PutBucketCORS');
  await buckets.update(exchange.target.bucket, { cors: null }, () => void still());
  return NO_CONTENT;
}

/** The one target that there is: the outbox. */
const arnOf = (region: string) => `arn:minio:sqs:${region}:OSCAR:webhook`;

export function getBucketNotification(exchange: Exchange, { region }: Store): Answer {
  const { rules } = exchange.authorise('s3:GetBucketNotification');
  const QueueConfiguration = rules.map(({ id, prefix, suffix }) => ({
    Id: id,
    Queue: arnOf(region),
    Event: 's3:ObjectCreated:*',
    Filter: {
      S3Key: {
        FilterRule: [{ Name: 'prefix', Value: prefix }, ...(suffix === '' ? [] : [{ Name: 'suffix', Value: suffix }])],
      },
    },
  }));
  return xml('NotificationConfiguration', { QueueConfiguration });
}

export async function putBucketNotification(exchange: Exchange, { buckets }: Store): Promise<Answer> {
  exchange.authorise('s3:PutBucketNotification');
  const document = await exchange.receiveXml('NotificationConfiguration');
  if (document.children.some(({ name }) => name !== 'QueueConfiguration')) {
    throw new S3Error('InvalidArgument', 'Only QueueConfiguration is supported: events go to OSCAR.');
  }
  const rules = document.children.map((configuration, index) => readRule(configuration, index));
  const still = exchange.still('s3:PutBucketNotification');
  await buckets.replaceRules(exchange.target.bucket, rules, () => void still());
  return { status: 200 };
}

function readRule(configuration: Element, index: number): Rule {
  const events = all(configuration, 'Event').map(({ text }) => text.trim());
  if (events.length === 0 || !events.every((event) => event === 's3:ObjectCreated:*')) {
    throw new S3Error('InvalidArgument', 'A rule is for the event s3:ObjectCreated:*.');
  }
  const filters = all(configuration, 'Filter').flatMap((filter) => all(filter, 'S3Key'));
  const rules = filters.flatMap((key) => all(key, 'FilterRule'));
  const valueOf = (name: string) => {
    const rule = rules.find((each) => textOf(each, 'Name')?.trim().toLowerCase() === name);
    return rule ? (textOf(rule, 'Value') ?? '') : '';
  };
  const id = textOf(configuration, 'Id')?.trim() || `rule-${index + 1}`;
  return { id, prefix: valueOf('prefix'), suffix: valueOf('suffix') };
}

/** Never enabled: an honest answer has no status. */
export function getBucketVersioning(exchange: Exchange): Answer {
  exchange.authorise('s3:GetBucketVersioning');
  return xml('VersioningConfiguration', {});
}

/** The owner has full control; who else reaches the bucket is not said in this language. */
export function getAcl(exchange: Exchange): Answer {
  const { owner } =
    exchange.target.key === '' ? exchange.authorise('s3:GetBucketAcl') : exchange.authorise('s3:GetObject');
  const namespace = 'http://www.w3.org/2001/XMLSchema-instance';
  const grantee = `<Grantee xmlns:xsi="${namespace}" xsi:type="CanonicalUser"><ID></ID><DisplayName></DisplayName></Grantee>`;
  const answer = xml('AccessControlPolicy', {
    Owner: { ID: owner, DisplayName: owner },
    AccessControlList: { Grant: { Grantee: '', Permission: 'FULL_CONTROL' } },
  });
  return { ...answer, body: String(answer.body).replace('<Grantee></Grantee>', grantee) };
}

export function getBucketPolicy(exchange: Exchange): Answer {
  exchange.authorise('s3:GetBucketPolicy');
  throw new S3Error('NoSuchBucketPolicy');
}

export function refuseBucketPolicy(exchange: Exchange): Answer {
  exchange.authorise('s3:GetBucketPolicy');
  throw new S3Error(
    'AccessDenied',
    'Who may reach a bucket is set through OSCAR: change its visibility and allowed users there.',
  );
}

export function noObjectLock(exchange: Exchange): Answer {
  exchange.authorise('s3:GetBucketObjectLockConfiguration');
  throw new S3Error('ObjectLockConfigurationNotFoundError');
}

export function noLifecycle(exchange: Exchange): Answer {
  exchange.authorise('s3:GetLifecycleConfiguration');
  throw new S3Error('NoSuchLifecycleConfiguration');
}

export function noEncryption(exchange: Exchange): Answer {
  exchange.authorise('s3:GetEncryptionConfiguration');
  throw new S3Error('ServerSideEncryptionConfigurationNotFoundError');
}
