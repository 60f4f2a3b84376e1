import { S3Error } from '../lib/errors.ts';
import { all, type Element, type Elements, textOf } from '../lib/xml.ts';
import { type Exchange, NO_CONTENT, type S3Response, type Store, xml } from './exchange.ts';

export function getObjectTagging(exchange: Exchange, store: Store): S3Response {
  const bucket = exchange.authorise('s3:GetObjectTagging');
  return xml('Tagging', tagSet(store.objects.get(bucket, exchange.target.key).tags));
}

export async function putObjectTagging(exchange: Exchange, store: Store): Promise<S3Response> {
  exchange.authorise('s3:PutObjectTagging');
  const tags = readTagging(await exchange.receiveXml('Tagging'));
  await store.objects.setTags(exchange.still('s3:PutObjectTagging'), exchange.target.key, tags);
  return { status: 200 };
}

export async function deleteObjectTagging(exchange: Exchange, store: Store): Promise<S3Response> {
  exchange.authorise('s3:DeleteObjectTagging');
  await store.objects.setTags(exchange.still('s3:DeleteObjectTagging'), exchange.target.key, {});
  return NO_CONTENT;
}

type Tags = Readonly<Record<string, string>>;

/** S3's figures: tags of an object, of a bucket, and characters of a name and a value. */
const OF_OBJECT = 10;
export const OF_BUCKET = 50;
const NAME = 128;
const VALUE = 256;

/** `x-amz-tagging: a=1&b=2`. */
export function readTagQuery(text: string): Tags {
  return checked([...new URLSearchParams(text)], OF_OBJECT);
}

/** `<Tagging><TagSet><Tag><Key>…</Key><Value>…</Value></Tag></TagSet></Tagging>` */
export function readTagging(document: Element, limit = OF_OBJECT): Tags {
  const [set] = all(document, 'TagSet');
  if (!set) throw new S3Error('MalformedXML');
  const pairs = all(set, 'Tag').map((tag): [string, string] => {
    const [key, value] = [textOf(tag, 'Key'), textOf(tag, 'Value')];
    if (key === undefined || value === undefined) throw new S3Error('MalformedXML');
    return [key, value];
  });
  return checked(pairs, limit);
}

export function tagSet(tags: Tags): Elements {
  return { TagSet: { Tag: Object.entries(tags).map(([Key, Value]) => ({ Key, Value })) } };
}

function checked(pairs: readonly [string, string][], limit: number): Tags {
  if (pairs.length > limit) throw new S3Error('InvalidTag', `There can be at most ${limit} tags.`);
  const tags = new Map<string, string>();
  for (const [name, value] of pairs) {
    if (name === '' || name.length > NAME || value.length > VALUE) {
      throw new S3Error('InvalidTag', `A tag has a name of 1 to ${NAME} and a value of up to ${VALUE} characters.`);
    }
    if (tags.has(name)) throw new S3Error('InvalidTag', `The tag ${name} is given twice.`);
    tags.set(name, value);
  }
  return Object.fromEntries(tags);
}
