import { S3Error } from '../errors.ts';
import { copyObject as copyInStore } from '../store/copy.ts';
import type { Database } from '../store/database.ts';
import { type Answer, isoDate, quoted, xml } from './answer.ts';
import { readCopySource } from './copy-source.ts';
import { descriptionIn } from './description-headers.ts';
import type { Exchange, Store } from './exchange.ts';
import { checkSourceConditions, writeConditionsIn } from './read-conditions.ts';

export async function copyObject(exchange: Exchange, store: Store & { database: Database }): Promise<Answer> {
  const { bucket: bucketName, key } = exchange.target;
  exchange.authorise('s3:PutObject');
  const from = readCopySource(exchange.setting('x-amz-copy-source') ?? '');
  exchange.authoriseOn(from.bucket, 's3:GetObject', from.key);
  const replace = exchange.setting('x-amz-metadata-directive') === 'REPLACE';
  const replaceTags = exchange.setting('x-amz-tagging-directive') === 'REPLACE';
  if (from.bucket === bucketName && from.key === key && !replace && !replaceTags) {
    throw new S3Error(
      'InvalidRequest',
      'This copy request is illegal because it is trying to copy an object to itself without changing its metadata.',
    );
  }
  const given = descriptionIn(exchange);
  const header = (name: string) => exchange.header(name);
  const record = await copyInStore(
    { database: store.database, objects: store.objects, remove: (files) => store.files.remove(files) },
    {
      from: { bucket: exchange.still('s3:GetObject', from.key, from.bucket), key: from.key },
      to: { bucket: exchange.still('s3:PutObject'), key },
      describe: (source) => {
        checkSourceConditions(header, source);
        const { contentType, headers } = replace ? given : source;
        return { contentType, headers, tags: replaceTags ? given.tags : source.tags };
      },
      writing: { event: 's3:ObjectCreated:Copy', origin: exchange.origin, conditions: writeConditionsIn(header) },
    },
  );
  const { checksum } = record;
  return xml('CopyObjectResult', {
    LastModified: isoDate(record.modified),
    ETag: quoted(record.eTag),
    ...(checksum && { [`Checksum${checksum.algorithm.toUpperCase()}`]: checksum.value, ChecksumType: checksum.type }),
  });
}
