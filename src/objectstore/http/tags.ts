import { S3Error } from '../errors.ts';
import { all, type Element, textOf } from '../xml/read-xml.ts';
import type { Elements } from '../xml/write-xml.ts';

export type Tags = Readonly<Record<string, string>>;

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
