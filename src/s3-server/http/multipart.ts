import { type Algorithm, type ChecksumType, isCrc, parseAlgorithm } from '../lib/checksum.ts';
import { S3Error } from '../lib/errors.ts';
import { childElements, childText, type Element } from '../lib/xml.ts';
import { readObjectChecksum } from '../payload/receive.ts';
import { encodePath } from '../signature/request-target.ts';
import type { ContentWriter } from '../store/content-writer.ts';
import { commitContent, findExtents, readContent } from '../store/contents.ts';
import type { ObjectRecord } from '../store/objects.ts';
import type { ClaimedPart, ExpectedObject, NewPart, Part, Upload } from '../store/uploads.ts';
import { type Exchange, formatIsoDate, NO_CONTENT, quoteETag, type S3Response, type Store, xml } from './exchange.ts';
import { readEncoding, readPageSize } from './list-objects.ts';
import {
  type ByteRange,
  checkSourceConditions,
  readCopyRange,
  readCopySource,
  readDescription,
  readWriteConditions,
} from './request-headers.ts';

export async function createMultipartUpload(exchange: Exchange, store: Store): Promise<S3Response> {
  exchange.authorize('s3:PutObject');
  const { bucket: Bucket, key: Key } = exchange.target;
  const { checksumAlgorithm, checksumType } = readChecksumChoice(exchange);
  const id = await store.uploads.begin(exchange.bucketAtCommit('s3:PutObject'), {
    ...readDescription(exchange),
    key: Key,
    checksumAlgorithm,
    checksumType,
  });
  return xml(
    'InitiateMultipartUploadResult',
    { Bucket, Key, UploadId: id },
    { headers: checksumChoiceHeaders({ checksumAlgorithm, checksumType }) },
  );
}

/** Only CRCs of parts can be combined to that of the object: CRC64NVME always is, SHA never. */
function readChecksumChoice(exchange: Exchange): Pick<Upload, 'checksumAlgorithm' | 'checksumType'> {
  const name = exchange.amzHeader('x-amz-checksum-algorithm');
  const type = exchange.amzHeader('x-amz-checksum-type')?.toUpperCase();
  const checksumAlgorithm = parseAlgorithm(name);
  if (name !== undefined && !checksumAlgorithm) {
    throw new S3Error(
      'InvalidRequest',
      'Checksum algorithm provided is unsupported: use CRC32, CRC32C, CRC64NVME, SHA1 or SHA256.',
    );
  }
  if (type !== undefined && type !== 'COMPOSITE' && type !== 'FULL_OBJECT') {
    throw new S3Error('InvalidRequest', 'Checksum type provided is unsupported: use COMPOSITE or FULL_OBJECT.');
  }
  if (!checksumAlgorithm) {
    if (type) throw new S3Error('InvalidRequest', 'A checksum type needs x-amz-checksum-algorithm.');
    return { checksumAlgorithm: undefined, checksumType: undefined };
  }
  const checksumType: ChecksumType =
    type === 'FULL_OBJECT' || (!type && checksumAlgorithm === 'crc64nvme') ? 'FULL_OBJECT' : 'COMPOSITE';
  const possible = checksumType === 'FULL_OBJECT' ? isCrc(checksumAlgorithm) : checksumAlgorithm !== 'crc64nvme';
  if (!possible) throw new S3Error('InvalidRequest', `The checksum type ${checksumType} cannot be used with ${name}.`);
  return { checksumAlgorithm, checksumType };
}

const checksumChoiceHeaders = ({
  checksumAlgorithm,
  checksumType,
}: Pick<Upload, 'checksumAlgorithm' | 'checksumType'>) => ({
  'x-amz-checksum-algorithm': checksumAlgorithm?.toUpperCase(),
  'x-amz-checksum-type': checksumType,
});

export async function completeMultipartUpload(exchange: Exchange, store: Store): Promise<S3Response> {
  const bucket = exchange.authorize('s3:PutObject');
  const { bucket: Bucket, key: Key } = exchange.target;
  const id = exchange.query('uploadId') ?? '';
  const upload = store.uploads.get(bucket, Key, id);
  const expected = readExpectedObject(exchange, upload);
  const document = await exchange.receiveXml('CompleteMultipartUpload', exchange.declaredBody('object'));
  const parts = readParts(document, upload.checksumAlgorithm, store.limits.parts);
  const conditions = readWriteConditions((name) => exchange.header(name));
  const record = await store.uploads.complete(exchange.bucketAtCommit('s3:PutObject'), Key, id, parts, {
    event: 's3:ObjectCreated:CompleteMultipartUpload',
    origin: exchange.origin,
    conditions,
    expected,
  });
  const { checksum } = record;
  return xml('CompleteMultipartUploadResult', {
    Location: `http://${exchange.header('host')}/${Bucket}/${encodePath(Key)}`,
    Bucket,
    Key,
    ETag: quoteETag(record.eTag),
    ...(checksum && { [`Checksum${checksum.algorithm.toUpperCase()}`]: checksum.value, ChecksumType: checksum.type }),
  });
}

/** Reads what the completing request declares about the object. Throws if it contradicts the upload. */
function readExpectedObject(exchange: Exchange, { checksumAlgorithm, checksumType }: Upload): ExpectedObject {
  const setting = (name: string) => exchange.amzHeader(name);
  const algorithm = setting('x-amz-checksum-algorithm')?.toLowerCase();
  const type = setting('x-amz-checksum-type')?.toUpperCase();
  const checksum = readObjectChecksum(setting);
  const fits =
    [checksum?.algorithm, algorithm].every((each) => !each || each === checksumAlgorithm) &&
    (!type || type === checksumType);
  if (!fits) {
    const begun = checksumAlgorithm ? `${checksumType} ${checksumAlgorithm.toUpperCase()}` : 'no checksum';
    throw new S3Error(
      'InvalidRequest',
      `The upload was created with ${begun}: complete it with the same checksum algorithm and type.`,
    );
  }
  const size = setting('x-amz-mp-object-size');
  if (size !== undefined && !/^\d{1,15}$/.test(size)) {
    throw new S3Error('InvalidRequest', 'Value for x-amz-mp-object-size header is invalid.');
  }
  return { checksum: checksum?.value, size: size === undefined ? undefined : Number(size) };
}

function readParts(document: Element, algorithm: Algorithm | undefined, most: number): ClaimedPart[] {
  const parts = childElements(document, 'Part');
  if (parts.length > most) throw new S3Error('InvalidArgument', `An object has at most ${most} parts.`);
  return parts.map((part) => {
    const number = Number(childText(part, 'PartNumber'));
    const eTag = childText(part, 'ETag')
      ?.trim()
      .replace(/^"(.*)"$/, '$1');
    if (!Number.isInteger(number) || number < 1 || eTag === undefined) throw new S3Error('MalformedXML');
    return { number, eTag, checksum: algorithm && childText(part, `Checksum${algorithm.toUpperCase()}`)?.trim() };
  });
}

export async function abortMultipartUpload(exchange: Exchange, store: Store): Promise<S3Response> {
  exchange.authorize('s3:AbortMultipartUpload');
  await store.uploads.abort(
    exchange.bucketAtCommit('s3:AbortMultipartUpload'),
    exchange.target.key,
    exchange.query('uploadId') ?? '',
  );
  return NO_CONTENT;
}

export function listParts(exchange: Exchange, store: Store): S3Response {
  const bucket = exchange.authorize('s3:ListMultipartUploadParts');
  const { key } = exchange.target;
  const upload = store.uploads.get(bucket, key, exchange.query('uploadId') ?? '');
  const limit = readPageSize(exchange, 'max-parts');
  const marker = Number(exchange.query('part-number-marker') ?? 0) || 0;
  const found = store.uploads.parts(upload, marker, limit + 1);
  const parts = found.slice(0, limit);
  const { checksumAlgorithm } = upload;
  return xml('ListPartsResult', {
    Bucket: bucket.name,
    Key: key,
    UploadId: upload.id,
    StorageClass: 'STANDARD',
    PartNumberMarker: marker,
    NextPartNumberMarker: parts.at(-1)?.number ?? 0,
    MaxParts: limit,
    IsTruncated: found.length > limit,
    ChecksumAlgorithm: checksumAlgorithm?.toUpperCase(),
    ChecksumType: upload.checksumType,
    Part: parts.map(({ number, modified, eTag, size, checksum }) => ({
      PartNumber: number,
      LastModified: formatIsoDate(modified),
      ETag: quoteETag(eTag),
      Size: size,
      ...(checksumAlgorithm && { [`Checksum${checksumAlgorithm.toUpperCase()}`]: checksum }),
    })),
  });
}

export function listMultipartUploads(exchange: Exchange, store: Store): S3Response {
  const prefix = exchange.query('prefix') ?? '';
  const bucket = exchange.authorize('s3:ListBucketMultipartUploads', prefix);
  const { encoding, encode } = readEncoding(exchange);
  const limit = readPageSize(exchange, 'max-uploads');
  const delimiter = exchange.query('delimiter') ?? '';
  const [keyMarker = '', idMarker = ''] = [exchange.query('key-marker'), exchange.query('upload-id-marker')];
  const page = store.uploads.list(bucket, { prefix, delimiter, after: keyMarker, idMarker, limit });
  const { rows, commonPrefixes, truncated, last } = page;
  const lastUpload = rows.at(-1);
  return xml('ListMultipartUploadsResult', {
    Bucket: bucket.name,
    KeyMarker: encode(keyMarker),
    UploadIdMarker: idMarker,
    NextKeyMarker: truncated ? encode(last) : undefined,
    // If the page ends with a common prefix, the next page begins after all uploads below it.
    NextUploadIdMarker: truncated && lastUpload?.key === last ? lastUpload.id : undefined,
    Prefix: encode(prefix),
    Delimiter: delimiter === '' ? undefined : encode(delimiter),
    EncodingType: encoding,
    MaxUploads: limit,
    IsTruncated: truncated,
    CommonPrefixes: commonPrefixes.map((each) => ({ Prefix: encode(each) })),
    Upload: rows.map(({ key, id, begun, checksumAlgorithm, checksumType }) => ({
      Key: encode(key),
      UploadId: id,
      StorageClass: 'STANDARD',
      Initiated: formatIsoDate(begun),
      ChecksumAlgorithm: checksumAlgorithm?.toUpperCase(),
      ChecksumType: checksumType,
    })),
  });
}

export async function uploadPart(exchange: Exchange, store: Store): Promise<S3Response> {
  const bucket = exchange.authorize('s3:PutObject');
  const number = readPartNumber(exchange, store);
  const upload = findUpload(exchange, store);
  const declared = exchange.declaredBody();
  if (declared.length > store.limits.uploadBytes) throw new S3Error('EntityTooLarge');
  store.objects.checkQuota(bucket, declared.length);
  const given = declared.checksum?.algorithm ?? declared.trailer;
  const { checksumAlgorithm: algorithm } = upload;
  if (algorithm && given && given !== algorithm) {
    throw new S3Error(
      'InvalidRequest',
      `The upload was created with the checksum ${algorithm}, but this part has ${given}.`,
    );
  }
  const { size, md5, checksum, writer } = await exchange.receiveFile(declared, { algorithm });
  const part = await storePart(exchange, store, upload, writer, { number, size, eTag: md5, checksum: checksum?.value });
  const headers = {
    etag: quoteETag(part.eTag),
    ...(checksum && { [`x-amz-checksum-${checksum.algorithm}`]: checksum.value }),
  };
  return { status: 200, headers };
}

export async function uploadPartCopy(exchange: Exchange, store: Store): Promise<S3Response> {
  const bucket = exchange.authorize('s3:PutObject');
  const number = readPartNumber(exchange, store);
  const upload = findUpload(exchange, store);
  const from = readCopySource(exchange.amzHeader('x-amz-copy-source') ?? '');
  const sourceBucket = exchange.authorizeOn(from.bucket, 's3:GetObject', from.key);
  const source = store.objects.get(sourceBucket, from.key);
  checkSourceConditions((name) => exchange.header(name), source);
  const range = readCopyRange(exchange.amzHeader('x-amz-copy-source-range'), source.size);
  if (range.length > store.limits.uploadBytes) throw new S3Error('EntityTooLarge');
  store.objects.checkQuota(bucket, range.length);
  const { writer, md5, checksum } = await copyRangeToFile(store, source, range, upload);
  const part = await storePart(exchange, store, upload, writer, { number, size: range.length, eTag: md5, checksum });
  return xml('CopyPartResult', {
    LastModified: formatIsoDate(part.modified),
    ETag: quoteETag(part.eTag),
    ...(upload.checksumAlgorithm && { [`Checksum${upload.checksumAlgorithm.toUpperCase()}`]: part.checksum }),
  });
}

/** In S3, parts are numbered from 1 to 10,000. */
function readPartNumber(exchange: Exchange, { limits }: Store): number {
  const number = Number(exchange.query('partNumber'));
  if (Number.isInteger(number) && number >= 1 && number <= limits.parts) return number;
  throw new S3Error('InvalidArgument', `Part number must be an integer between 1 and ${limits.parts}, inclusive.`);
}

function findUpload(exchange: Exchange, store: Store): Upload {
  const bucket = store.buckets.get(exchange.target.bucket);
  return store.uploads.get(bucket, exchange.target.key, exchange.query('uploadId') ?? '');
}

function storePart(
  exchange: Exchange,
  { uploads, files }: Store,
  { key, id }: Upload,
  writer: ContentWriter,
  part: Omit<NewPart, 'file'>,
): Promise<Part> {
  const still = exchange.bucketAtCommit('s3:PutObject');
  return commitContent(files, writer, () => uploads.putPart(still, key, id, { ...part, file: writer.file }));
}

async function copyRangeToFile(
  { files, objects }: Store,
  source: ObjectRecord,
  { start, length }: ByteRange,
  upload: Upload,
) {
  const content = objects.getContent(source);
  const release = content.kind === 'files' ? files.hold(content.segments) : () => undefined;
  const { checksumAlgorithm } = upload;
  const writer = files.create(length, { sha256: false, ...(checksumAlgorithm && { checksum: checksumAlgorithm }) });
  try {
    if (content.kind === 'inline') writer.write(content.data.subarray(start, start + length));
    else await readContent(files, findExtents(content.segments, start, length), blockWriter(writer));
    const { md5, checksum } = await writer.finish();
    await writer.publish();
    return { writer, md5, checksum };
  } catch (error) {
    await files.discard(writer);
    throw error;
  } finally {
    release();
  }
}

/** Passes blocks to a writer. Each promise resolves when the writer can accept more. */
function blockWriter(writer: ContentWriter): (block: Buffer) => Promise<void> {
  const waiting: (() => void)[] = [];
  writer.onDrain = () => {
    for (const resolve of waiting.splice(0)) resolve();
  };
  return (block) => {
    if (writer.write(block)) return Promise.resolve();
    return new Promise((resolve) => waiting.push(resolve));
  };
}
