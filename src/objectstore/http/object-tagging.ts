import { type Answer, NO_CONTENT, xml } from './answer.ts';
import type { Exchange, Store } from './exchange.ts';
import { readTagging, tagSet } from './tags.ts';

export function getObjectTagging(exchange: Exchange, store: Store): Answer {
  const bucket = exchange.authorise('s3:GetObjectTagging');
  return xml('Tagging', tagSet(store.objects.get(bucket, exchange.target.key).tags));
}

export async function putObjectTagging(exchange: Exchange, store: Store): Promise<Answer> {
  exchange.authorise('s3:PutObjectTagging');
  const tags = readTagging(await exchange.receiveXml('Tagging'));
  await store.objects.setTags(exchange.still('s3:PutObjectTagging'), exchange.target.key, tags);
  return { status: 200 };
}

export async function deleteObjectTagging(exchange: Exchange, store: Store): Promise<Answer> {
  exchange.authorise('s3:DeleteObjectTagging');
  await store.objects.setTags(exchange.still('s3:DeleteObjectTagging'), exchange.target.key, {});
  return NO_CONTENT;
}
