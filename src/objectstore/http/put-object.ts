import { S3Error } from '../errors.ts';
import type { Received } from '../payload/receive.ts';
import type { NewContent } from '../store/contents.ts';
import { keepContent } from '../store/keep-content.ts';
import type { ObjectRecord, StoredChecksum } from '../store/object.ts';
import { type Answer, type Headers, quoted } from './answer.ts';
import { descriptionIn } from './description-headers.ts';
import type { Exchange, Store } from './exchange.ts';
import { writeConditionsIn } from './read-conditions.ts';

export async function putObject(exchange: Exchange, store: Store): Promise<Answer> {
  const bucket = exchange.authorise('s3:PutObject');
  const description = descriptionIn(exchange);
  const announced = exchange.announced();
  if (announced.length > store.limits.uploadBytes) throw new S3Error('EntityTooLarge');
  const { key } = exchange.target;
  store.objects.checkRoom(
    bucket,
    announced.length - (bucket.quota === undefined ? 0 : sizeOf(store.objects.find(bucket, key))),
  );
  const conditions = writeConditionsIn((name) => exchange.header(name));
  const received = await exchange.receive(announced);
  const checksum = received.checksum && ({ ...received.checksum, type: 'FULL_OBJECT' } satisfies StoredChecksum);
  const record = await keeping(store, received, (content) =>
    store.objects.put(
      exchange.still('s3:PutObject'),
      { ...description, key, size: received.size, eTag: received.md5, content, checksum },
      { event: 's3:ObjectCreated:Put', origin: exchange.origin, conditions },
    ),
  );
  return { status: 200, headers: { etag: quoted(record.eTag), ...checksumHeaders(record.checksum) } };
}

const sizeOf = (record: ObjectRecord | undefined) => record?.size ?? 0;

/** Gives the database what was received. */
async function keeping<T>(
  { files }: Store,
  { data, writer, size }: Received,
  put: (content: NewContent) => Promise<T>,
): Promise<T> {
  if (!writer) return put({ kind: 'inline', data: data ?? Buffer.alloc(0) });
  return keepContent(files, writer, () => put({ kind: 'files', segments: [{ file: writer.file, size }] }));
}

export function checksumHeaders(checksum: StoredChecksum | undefined): Headers {
  if (!checksum) return {};
  return { [`x-amz-checksum-${checksum.algorithm}`]: checksum.value, 'x-amz-checksum-type': checksum.type };
}
