import { S3Error } from '../errors.ts';
import { type Algorithm, type ChecksumType, isCrc, readAlgorithm } from '../payload/checksum.ts';
import { encodePath } from '../signature/uri.ts';
import type { ClaimedPart, Upload } from '../store/uploads.ts';
import { all, type Element, textOf } from '../xml/read-xml.ts';
import { type Answer, isoDate, NO_CONTENT, quoted, xml } from './answer.ts';
import { descriptionIn } from './description-headers.ts';
import type { Exchange, Store } from './exchange.ts';
import { maximumIn } from './list-objects.ts';
import { writeConditionsIn } from './read-conditions.ts';

export async function createMultipartUpload(exchange: Exchange, store: Store): Promise<Answer> {
  exchange.authorise('s3:PutObject');
  const { bucket: Bucket, key: Key } = exchange.target;
  const { checksumAlgorithm, checksumType } = checksumIn(exchange);
  const id = await store.uploads.begin(exchange.still('s3:PutObject'), {
    ...descriptionIn(exchange),
    key: Key,
    checksumAlgorithm,
    checksumType,
  });
  return xml(
    'InitiateMultipartUploadResult',
    { Bucket, Key, UploadId: id },
    { headers: checksumAnswer({ checksumAlgorithm, checksumType }) },
  );
}

/** CRC64NVME is always of the whole object, SHA never: only CRCs can be joined. */
function checksumIn(exchange: Exchange): Pick<Upload, 'checksumAlgorithm' | 'checksumType'> {
  const name = exchange.setting('x-amz-checksum-algorithm');
  const type = exchange.setting('x-amz-checksum-type')?.toUpperCase();
  const checksumAlgorithm = readAlgorithm(name);
  if (name !== undefined && !checksumAlgorithm) {
    throw new S3Error(
      'InvalidRequest',
      'Checksum algorithm provided is unsupported: use CRC32, CRC32C, CRC64NVME, SHA1 or SHA256.',
    );
  }
  if (!checksumAlgorithm) return { checksumAlgorithm: undefined, checksumType: undefined };
  const checksumType: ChecksumType =
    type === 'FULL_OBJECT' || (!type && checksumAlgorithm === 'crc64nvme') ? 'FULL_OBJECT' : 'COMPOSITE';
  const possible = checksumType === 'FULL_OBJECT' ? isCrc(checksumAlgorithm) : checksumAlgorithm !== 'crc64nvme';
  if (!possible) throw new S3Error('InvalidRequest', `The checksum type ${checksumType} cannot be used with ${name}.`);
  return { checksumAlgorithm, checksumType };
}

const checksumAnswer = ({ checksumAlgorithm, checksumType }: Pick<Upload, 'checksumAlgorithm' | 'checksumType'>) => ({
  'x-amz-checksum-algorithm': checksumAlgorithm?.toUpperCase(),
  'x-amz-checksum-type': checksumType,
});

export async function completeMultipartUpload(exchange: Exchange, store: Store): Promise<Answer> {
  const bucket = exchange.authorise('s3:PutObject');
  const { bucket: Bucket, key: Key } = exchange.target;
  const id = exchange.query('uploadId') ?? '';
  const { checksumAlgorithm } = store.uploads.get(bucket, Key, id);
  const parts = readParts(await exchange.receiveXml('CompleteMultipartUpload'), checksumAlgorithm, store.limits.parts);
  const conditions = writeConditionsIn((name) => exchange.header(name));
  const record = await store.uploads.complete(exchange.still('s3:PutObject'), Key, id, parts, {
    event: 's3:ObjectCreated:CompleteMultipartUpload',
    origin: exchange.origin,
    conditions,
  });
  const { checksum } = record;
  return xml('CompleteMultipartUploadResult', {
    Location: `http://${exchange.header('host')}/${Bucket}/${encodePath(Key)}`,
    Bucket,
    Key,
    ETag: quoted(record.eTag),
    ...(checksum && { [`Checksum${checksum.algorithm.toUpperCase()}`]: checksum.value, ChecksumType: checksum.type }),
  });
}

function readParts(document: Element, algorithm: Algorithm | undefined, most: number): ClaimedPart[] {
  const parts = all(document, 'Part');
  if (parts.length > most) throw new S3Error('InvalidArgument', `An object has at most ${most} parts.`);
  return parts.map((part) => {
    const number = Number(textOf(part, 'PartNumber'));
    const eTag = textOf(part, 'ETag')
      ?.trim()
      .replace(/^"(.*)"$/, '$1');
    if (!Number.isInteger(number) || number < 1 || eTag === undefined) throw new S3Error('MalformedXML');
    return { number, eTag, checksum: algorithm && textOf(part, `Checksum${algorithm.toUpperCase()}`)?.trim() };
  });
}

export async function abortMultipartUpload(exchange: Exchange, store: Store): Promise<Answer> {
  exchange.authorise('s3:AbortMultipartUpload');
  await store.uploads.abort(
    exchange.still('s3:AbortMultipartUpload'),
    exchange.target.key,
    exchange.query('uploadId') ?? '',
  );
  return NO_CONTENT;
}

export function listParts(exchange: Exchange, store: Store): Answer {
  const bucket = exchange.authorise('s3:ListMultipartUploadParts');
  const { key } = exchange.target;
  const upload = store.uploads.get(bucket, key, exchange.query('uploadId') ?? '');
  const limit = maximumIn(exchange, 'max-parts');
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
      LastModified: isoDate(modified),
      ETag: quoted(eTag),
      Size: size,
      ...(checksumAlgorithm && { [`Checksum${checksumAlgorithm.toUpperCase()}`]: checksum }),
    })),
  });
}

export function listMultipartUploads(exchange: Exchange, store: Store): Answer {
  const prefix = exchange.query('prefix') ?? '';
  const bucket = exchange.authorise('s3:ListBucketMultipartUploads', prefix);
  const limit = maximumIn(exchange, 'max-uploads');
  const [keyMarker = '', idMarker = ''] = [exchange.query('key-marker'), exchange.query('upload-id-marker')];
  // Without an id the marker excludes all uploads of its key: no id is greater than this one.
  const after = keyMarker !== '' && idMarker === '' ? '\u{10ffff}' : idMarker;
  const found = store.uploads.list(bucket, { prefix, keyMarker, idMarker: after, limit: limit + 1 });
  const uploads = found.slice(0, limit);
  const last = found.length > limit ? uploads.at(-1) : undefined;
  return xml('ListMultipartUploadsResult', {
    Bucket: bucket.name,
    KeyMarker: keyMarker,
    UploadIdMarker: idMarker,
    NextKeyMarker: last?.key,
    NextUploadIdMarker: last?.id,
    Prefix: prefix,
    MaxUploads: limit,
    IsTruncated: last !== undefined,
    Upload: uploads.map(({ key, id, begun, checksumAlgorithm, checksumType }) => ({
      Key: key,
      UploadId: id,
      StorageClass: 'STANDARD',
      Initiated: isoDate(begun),
      ChecksumAlgorithm: checksumAlgorithm?.toUpperCase(),
      ChecksumType: checksumType,
    })),
  });
}
