import { S3Error } from '../lib/errors.ts';
import { childElements, childText, type Element, type Elements } from '../lib/xml.ts';
import { type Exchange, NO_CONTENT, type S3Response, type Store, xml } from './exchange.ts';

export function getObjectTagging(exchange: Exchange, store: Store): S3Response {
  const bucket = exchange.authorize('s3:GetObjectTagging');
  return xml('Tagging', tagSet(store.objects.get(bucket, exchange.target.key).tags));
}

export async function putObjectTagging(exchange: Exchange, store: Store): Promise<S3Response> {
  exchange.authorize('s3:PutObjectTagging');
  const tags = readTagging(await exchange.receiveXml('Tagging'));
  await store.objects.setTags(exchange.bucketAtCommit('s3:PutObjectTagging'), exchange.target.key, tags);
  return { status: 200 };
}

export async function deleteObjectTagging(exchange: Exchange, store: Store): Promise<S3Response> {
  exchange.authorize('s3:DeleteObjectTagging');
  await store.objects.setTags(exchange.bucketAtCommit('s3:DeleteObjectTagging'), exchange.target.key, {});
  return NO_CONTENT;
}

type Tags = Readonly<Record<string, string>>;

/** S3's limits: tags of an object and of a bucket, characters of a name and of a value. */
const MAX_OBJECT_TAGS = 10;
export const MAX_BUCKET_TAGS = 50;
const MAX_NAME_LENGTH = 128;
const MAX_VALUE_LENGTH = 256;

/** `x-amz-tagging: a=1&b=2`. */
export function readTagQuery(text: string): Tags {
  return checkTags([...new URLSearchParams(text)], MAX_OBJECT_TAGS);
}

/** `<Tagging><TagSet><Tag><Key>…</Key><Value>…</Value></Tag></TagSet></Tagging>` */
export function readTagging(document: Element, limit = MAX_OBJECT_TAGS): Tags {
  const [set] = childElements(document, 'TagSet');
  if (!set) throw new S3Error('MalformedXML');
  const pairs = childElements(set, 'Tag').map((tag): [string, string] => {
    const [key, value] = [childText(tag, 'Key'), childText(tag, 'Value')];
    if (key === undefined || value === undefined) throw new S3Error('MalformedXML');
    return [key, value];
  });
  return checkTags(pairs, limit);
}

export function tagSet(tags: Tags): Elements {
  return { TagSet: { Tag: Object.entries(tags).map(([Key, Value]) => ({ Key, Value })) } };
}

function checkTags(pairs: readonly [string, string][], limit: number): Tags {
  if (pairs.length > limit) throw new S3Error('InvalidTag', `At most ${limit} tags are allowed.`);
  const tags = new Map<string, string>();
  for (const [name, value] of pairs) {
    if (name === '' || name.length > MAX_NAME_LENGTH || value.length > MAX_VALUE_LENGTH) {
      throw new S3Error(
        'InvalidTag',
        `The name of a tag must have 1 to ${MAX_NAME_LENGTH} characters, its value up to ${MAX_VALUE_LENGTH}.`,
      );
    }
    if (tags.has(name)) throw new S3Error('InvalidTag', `The tag ${name} is given twice.`);
    tags.set(name, value);
  }
  return Object.fromEntries(tags);
}
