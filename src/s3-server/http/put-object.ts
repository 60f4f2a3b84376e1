import { S3Error } from '../lib/errors.ts';
import type { ReceivedBody } from '../payload/receive.ts';
import { commitContent, type NewContent } from '../store/contents.ts';
import { copyStoredObject as copyInStore } from '../store/copy.ts';
import type { StoreDatabase } from '../store/database.ts';
import type { ObjectRecord, StoredChecksum } from '../store/objects.ts';
import { type Exchange, formatIsoDate, type Headers, quoteETag, type S3Response, type Store, xml } from './exchange.ts';
import { checkSourceConditions, readCopySource, readDescription, readWriteConditions } from './request-headers.ts';

export async function putObject(exchange: Exchange, store: Store): Promise<S3Response> {
  const bucket = exchange.authorize('s3:PutObject');
  const description = readDescription(exchange);
  const declared = exchange.declaredBody();
  if (declared.length > store.limits.uploadBytes) throw new S3Error('EntityTooLarge');
  const { key } = exchange.target;
  store.objects.checkQuota(
    bucket,
    declared.length - (bucket.quota === undefined ? 0 : sizeOf(store.objects.find(bucket, key))),
  );
  const conditions = readWriteConditions((name) => exchange.header(name));
  const received = await exchange.receive(declared);
  const checksum = received.checksum && ({ ...received.checksum, type: 'FULL_OBJECT' } satisfies StoredChecksum);
  const record = await storeBody(store, received, (content) =>
    store.objects.put(
      exchange.bucketAtCommit('s3:PutObject'),
      { ...description, key, size: received.size, eTag: received.md5, content, checksum },
      { event: 's3:ObjectCreated:Put', origin: exchange.origin, conditions },
    ),
  );
  return { status: 200, headers: { etag: quoteETag(record.eTag), ...checksumHeaders(record.checksum) } };
}

const sizeOf = (record: ObjectRecord | undefined) => record?.size ?? 0;

/** Stores a received body, inline or as a file, through `put`. */
async function storeBody<T>(
  { files }: Store,
  { data, writer, size }: ReceivedBody,
  put: (content: NewContent) => Promise<T>,
): Promise<T> {
  if (!writer) return put({ kind: 'inline', data: data ?? Buffer.alloc(0) });
  return commitContent(files, writer, () => put({ kind: 'files', segments: [{ file: writer.file, size }] }));
}

export function checksumHeaders(checksum: StoredChecksum | undefined): Headers {
  if (!checksum) return {};
  return { [`x-amz-checksum-${checksum.algorithm}`]: checksum.value, 'x-amz-checksum-type': checksum.type };
}

export async function answerCopyObject(
  exchange: Exchange,
  store: Store & { database: StoreDatabase },
): Promise<S3Response> {
  const { bucket: bucketName, key } = exchange.target;
  exchange.authorize('s3:PutObject');
  const from = readCopySource(exchange.amzHeader('x-amz-copy-source') ?? '');
  exchange.authorizeOn(from.bucket, 's3:GetObject', from.key);
  const replace = replacesSource(exchange, 'x-amz-metadata-directive');
  const replaceTags = replacesSource(exchange, 'x-amz-tagging-directive');
  const algorithm = exchange.amzHeader('x-amz-checksum-algorithm')?.toLowerCase();
  if (from.bucket === bucketName && from.key === key && !replace && !replaceTags) {
    throw new S3Error(
      'InvalidRequest',
      'This copy request is illegal because it is trying to copy an object to itself without changing its metadata.',
    );
  }
  const given = readDescription(exchange);
  const header = (name: string) => exchange.header(name);
  const record = await copyInStore(
    { database: store.database, objects: store.objects, remove: (files) => store.files.remove(files) },
    {
      from: { bucket: exchange.bucketAtCommit('s3:GetObject', from.key, from.bucket), key: from.key },
      to: { bucket: exchange.bucketAtCommit('s3:PutObject'), key },
      describe: (source) => {
        checkSourceConditions(header, source);
        if (algorithm !== undefined && algorithm !== source.checksum?.algorithm) {
          throw new S3Error(
            'NotImplemented',
            'A copy keeps the checksum of its source: another algorithm is not supported.',
          );
        }
        const { contentType, headers } = replace ? given : source;
        return { contentType, headers, tags: replaceTags ? given.tags : source.tags };
      },
      writing: { event: 's3:ObjectCreated:Copy', origin: exchange.origin, conditions: readWriteConditions(header) },
    },
  );
  const { checksum } = record;
  return xml('CopyObjectResult', {
    LastModified: formatIsoDate(record.modified),
    ETag: quoteETag(record.eTag),
    ...(checksum && { [`Checksum${checksum.algorithm.toUpperCase()}`]: checksum.value, ChecksumType: checksum.type }),
  });
}

function replacesSource(exchange: Exchange, header: string): boolean {
  const directive = exchange.amzHeader(header) ?? 'COPY';
  if (directive === 'COPY' || directive === 'REPLACE') return directive === 'REPLACE';
  throw new S3Error('InvalidArgument', `The header ${header} must be COPY or REPLACE.`);
}
