import { S3Error } from '../lib/errors.ts';
import type { Elements } from '../lib/xml.ts';
import { encodePath } from '../signature/request-target.ts';
import type { StoreBucket } from '../store/buckets.ts';
import type { ObjectListing } from '../store/listing.ts';
import type { ObjectRecord } from '../store/objects.ts';
import { type Exchange, formatIsoDate, quoteETag, type S3Response, type Store, xml } from './exchange.ts';

/** S3's limit for names on one page. */
const MAX_PAGE_SIZE = 1000;

type Encode = (name: string) => string;

export function answerListObjects(exchange: Exchange, store: Store): S3Response {
  const marker = exchange.query('marker') ?? '';
  const { bucket, listing, encode, content } = listForRequest(exchange, store, marker);
  return xml('ListBucketResult', {
    Name: bucket.name,
    Marker: encode(marker),
    ...content,
    NextMarker: listing.truncated ? encode(listing.last) : undefined,
    Contents: listing.rows.map((row) => toEntry(row, encode, bucket.owner)),
  });
}

export function listObjectsV2(exchange: Exchange, store: Store): S3Response {
  if (exchange.query('list-type') !== '2') throw new S3Error('InvalidArgument', 'The list-type must be 2.');
  const token = exchange.query('continuation-token');
  const startAfter = exchange.query('start-after') ?? '';
  const after = token === undefined ? startAfter : readToken(token);
  const { bucket, listing, encode, content } = listForRequest(exchange, store, after);
  const owner = exchange.query('fetch-owner') === 'true' ? bucket.owner : undefined;
  return xml('ListBucketResult', {
    Name: bucket.name,
    ...content,
    KeyCount: listing.rows.length + listing.commonPrefixes.length,
    ContinuationToken: token,
    NextContinuationToken: listing.truncated ? writeToken(listing.last) : undefined,
    StartAfter: startAfter === '' ? undefined : encode(startAfter),
    Contents: listing.rows.map((row) => toEntry(row, encode, owner)),
  });
}

/** Each object has one version with the id `null`, as S3 reports for a bucket without versioning. */
export function listObjectVersions(exchange: Exchange, store: Store): S3Response {
  const marker = exchange.query('key-marker') ?? '';
  const { bucket, listing, encode, content } = listForRequest(exchange, store, marker, 's3:ListBucketVersions');
  return xml('ListVersionsResult', {
    Name: bucket.name,
    KeyMarker: encode(marker),
    VersionIdMarker: '',
    ...content,
    NextKeyMarker: listing.truncated ? encode(listing.last) : undefined,
    NextVersionIdMarker: listing.truncated ? 'null' : undefined,
    Version: listing.rows.map((row) => ({ ...toEntry(row, encode, bucket.owner), VersionId: 'null', IsLatest: true })),
  });
}

/** A page size in the query, at most 1000. */
export function readPageSize(exchange: Exchange, name: string): number {
  const text = exchange.query(name);
  if (text === undefined || text === '') return MAX_PAGE_SIZE;
  if (!/^\d{1,10}$/.test(text))
    throw new S3Error('InvalidArgument', `Argument ${name} must be an integer between 0 and 2147483647.`);
  return Math.min(Number(text), MAX_PAGE_SIZE);
}

interface RequestedListing {
  readonly bucket: StoreBucket;
  readonly listing: ObjectListing<ObjectRecord>;
  readonly encode: Encode;
  /** The elements that all kinds of listings have. */
  readonly content: Elements;
}

/** How names are encoded in a listing. */
export function readEncoding(exchange: Exchange): { readonly encoding: string | undefined; readonly encode: Encode } {
  const encoding = exchange.query('encoding-type') || undefined;
  if (encoding !== undefined && encoding !== 'url') {
    throw new S3Error('InvalidArgument', 'Invalid Encoding Method specified in Request.');
  }
  return { encoding, encode: encoding === 'url' ? encodePath : (name) => name };
}

function listForRequest(
  exchange: Exchange,
  { objects }: Store,
  after: string,
  action: 's3:ListBucket' | 's3:ListBucketVersions' = 's3:ListBucket',
): RequestedListing {
  const prefix = exchange.query('prefix') ?? '';
  const delimiter = exchange.query('delimiter') ?? '';
  const bucket = exchange.authorize(action, prefix);
  const { encoding, encode } = readEncoding(exchange);
  const limit = readPageSize(exchange, 'max-keys');
  const listing = objects.list(bucket, { prefix, delimiter, after, limit });
  const content = {
    Prefix: encode(prefix),
    Delimiter: delimiter === '' ? undefined : encode(delimiter),
    MaxKeys: limit,
    EncodingType: encoding,
    IsTruncated: listing.truncated,
    CommonPrefixes: listing.commonPrefixes.map((each) => ({ Prefix: encode(each) })),
  };
  return { bucket, listing, encode, content };
}

function toEntry(
  { key, modified, eTag, size, checksum }: ObjectRecord,
  encode: Encode,
  owner: string | undefined,
): Elements {
  return {
    Key: encode(key),
    LastModified: formatIsoDate(modified),
    ETag: quoteETag(eTag),
    ChecksumAlgorithm: checksum?.algorithm.toUpperCase(),
    ChecksumType: checksum?.type,
    Size: size,
    StorageClass: 'STANDARD',
    Owner: owner === undefined ? undefined : { ID: owner, DisplayName: owner },
  };
}

const writeToken = (name: string) => Buffer.from(name).toString('base64url');

function readToken(token: string): string {
  const name = Buffer.from(token, 'base64url').toString();
  if (writeToken(name) !== token) throw new S3Error('InvalidArgument', 'The continuation token provided is incorrect.');
  return name;
}
