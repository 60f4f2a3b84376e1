import type { ServerResponse } from 'node:http';
import { S3Error } from '../lib/errors.ts';
import { isHeaderValue } from '../lib/limits.ts';
import { type ContentFiles, findExtents, readContent, type Segment, type StoredContent } from '../store/contents.ts';
import type { ObjectRecord } from '../store/objects.ts';
import {
  type Exchange,
  formatHttpDate,
  type Headers,
  quoteETag,
  type S3Response,
  type Store,
  xml,
} from './exchange.ts';
import { checksumHeaders } from './put-object.ts';
import { type ByteRange, isModified, readRange } from './request-headers.ts';

/** Response headers that the query of a signed URL may set, to tell a browser how to treat the object. */
export const OVERRIDABLE_HEADERS = [
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-type',
  'expires',
];

/** GET and HEAD. */
export function getObject(exchange: Exchange, store: Store): S3Response {
  const bucket = exchange.authorize('s3:GetObject');
  const object = store.objects.get(bucket, exchange.target.key);
  const header = (name: string) => exchange.header(name);
  if (!isModified(header, object)) return { status: 304, headers: validators(object) };
  const content = store.objects.getContent(object);
  const partNumber = exchange.query('partNumber');
  const range =
    partNumber === undefined ? readRange(header('range'), object.size) : findPartRange(partNumber, object, content);
  const headers = objectHeaders(exchange, object, range);
  const status = range ? 206 : 200;
  if (exchange.request.method === 'HEAD') return { status, headers };
  const { start, length } = range ?? { start: 0, length: object.size };
  if (content.kind === 'inline') return { status, headers, body: content.data.subarray(start, start + length) };
  // The server calls it in this turn of the event loop, so no file of the object can be removed before.
  const stream = (response: ServerResponse) =>
    streamContent(response, store.files, content.segments, { start, length });
  return { status, headers, stream };
}

/** An object that was not uploaded in parts has one part. */
function findPartRange(text: string, { size, parts = 1 }: ObjectRecord, content: StoredContent): ByteRange {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new S3Error('InvalidArgument', 'Part number must be an integer.');
  if (number > parts || size === 0) throw new S3Error('InvalidRange', 'The object has no such part.');
  if (content.kind === 'inline') return { start: 0, length: size };
  const before = content.segments.slice(0, number - 1).reduce((sum, segment) => sum + segment.size, 0);
  return { start: before, length: content.segments[number - 1]?.size ?? 0 };
}

/** `?attributes`: the attributes that the client lists in a header. */
export function getObjectAttributes(exchange: Exchange, store: Store): S3Response {
  const object = store.objects.get(exchange.authorize('s3:GetObject'), exchange.target.key);
  const wanted = new Set((exchange.header('x-amz-object-attributes') ?? '').split(',').map((each) => each.trim()));
  const { checksum } = object;
  const content = {
    ETag: wanted.has('ETag') ? object.eTag : undefined,
    Checksum:
      wanted.has('Checksum') && checksum
        ? { [`Checksum${checksum.algorithm.toUpperCase()}`]: checksum.value, ChecksumType: checksum.type }
        : undefined,
    ObjectParts: wanted.has('ObjectParts') && object.parts ? { TotalPartsCount: object.parts } : undefined,
    StorageClass: wanted.has('StorageClass') ? 'STANDARD' : undefined,
    ObjectSize: wanted.has('ObjectSize') ? object.size : undefined,
  };
  return xml('GetObjectAttributesResponse', content, { headers: { 'last-modified': formatHttpDate(object.modified) } });
}

function objectHeaders(exchange: Exchange, object: ObjectRecord, range: ByteRange | undefined): Headers {
  const headers: Record<string, string | number | undefined> = {
    'content-type': object.contentType,
    ...object.headers,
    ...validators(object),
    'accept-ranges': 'bytes',
    'content-length': range?.length ?? object.size,
  };
  if (range) headers['content-range'] = `bytes ${range.start}-${range.start + range.length - 1}/${object.size}`;
  if (object.parts !== undefined && exchange.target.query.has('partNumber'))
    headers['x-amz-mp-parts-count'] = object.parts;
  const tags = Object.keys(object.tags).length;
  if (tags > 0) headers['x-amz-tagging-count'] = tags;
  // Clients verify what they receive, so the checksum of the whole object would be wrong for a range.
  if (!range && exchange.amzHeader('x-amz-checksum-mode')?.toUpperCase() === 'ENABLED') {
    Object.assign(headers, checksumHeaders(object.checksum));
  }
  for (const name of OVERRIDABLE_HEADERS) {
    const override = exchange.query(`response-${name}`);
    if (override !== undefined && isHeaderValue(override)) headers[name] = override;
  }
  return headers;
}

const validators = ({ eTag, modified }: ObjectRecord): Headers => ({
  etag: quoteETag(eTag),
  'last-modified': formatHttpDate(modified),
});

async function streamContent(
  response: ServerResponse,
  files: ContentFiles,
  segments: readonly Segment[],
  { start, length }: ByteRange,
): Promise<void> {
  const release = files.hold(segments);
  try {
    await readContent(files, findExtents(segments, start, length), (block) => writeBlock(response, block));
  } finally {
    release();
  }
  response.end();
}

/** Resolves when the socket has accepted the block; rejects when the connection is closed. */
function writeBlock(response: ServerResponse, block: Buffer): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const gone = () => reject(new Error('the client closed the connection'));
  if (response.destroyed) gone();
  else {
    response.once('close', gone);
    response.write(block, (error) => {
      response.off('close', gone);
      if (error) reject(error);
      else resolve();
    });
  }
  return promise;
}
