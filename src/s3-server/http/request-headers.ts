import { S3Error } from '../lib/errors.ts';
import { checkHeader, METADATA_BYTES } from '../lib/limits.ts';
import { decodeComponent } from '../signature/request-target.ts';
import { matchesETag, type ObjectDescription, type ObjectRecord, type WriteConditions } from '../store/objects.ts';
import type { Exchange } from './exchange.ts';
import { readTagQuery } from './tagging.ts';

/** Headers that are stored with an object and returned with it, besides `x-amz-meta-*`. */
const STORED_HEADERS = ['cache-control', 'content-disposition', 'content-encoding', 'content-language', 'expires'];

const META = 'x-amz-meta-';

/** Reads the description of an object from the headers of the request that writes it. */
export function readDescription(exchange: Exchange): ObjectDescription {
  const headers: Record<string, string> = {};
  for (const name of STORED_HEADERS) {
    const value = exchange.header(name);
    if (value !== undefined) headers[name] = value;
  }
  const encoding = withoutFraming(headers['content-encoding']);
  if (encoding) headers['content-encoding'] = encoding;
  else delete headers['content-encoding'];
  for (const [name, value] of readMetadata(exchange)) headers[name] = value;
  const tagging = exchange.amzHeader('x-amz-tagging');
  return {
    contentType: exchange.header('content-type') || 'binary/octet-stream',
    headers,
    tags: tagging ? readTagQuery(tagging) : {},
  };
}

function readMetadata(exchange: Exchange): [string, string][] {
  const metadata: [string, string][] = [];
  let bytes = 0;
  for (const name of exchange.amzHeaderNames()) {
    if (!name.startsWith(META)) continue;
    const value = exchange.amzHeader(name);
    if (value === undefined) continue;
    checkHeader(name, value);
    bytes += name.length - META.length + value.length;
    metadata.push([name, value]);
  }
  if (bytes > METADATA_BYTES) throw new S3Error('MetadataTooLarge');
  return metadata;
}

/** `aws-chunked` describes the transfer, not the object. */
function withoutFraming(encoding: string | undefined): string {
  const codings = (encoding ?? '').split(',').map((each) => each.trim());
  return codings.filter((each) => each !== '' && each !== 'aws-chunked').join(',');
}

type Header = (name: string) => string | undefined;

/** The four conditions of RFC 9110 §13.1. For the source of a copy, S3 has its own header names. */
interface Conditions {
  readonly match: string | undefined;
  readonly noneMatch: string | undefined;
  readonly modifiedSince: number | undefined;
  readonly unmodifiedSince: number | undefined;
}

function readConditions(header: Header, prefix = ''): Conditions {
  return {
    match: header(`${prefix}if-match`),
    noneMatch: header(`${prefix}if-none-match`),
    modifiedSince: parseHttpDate(header(`${prefix}if-modified-since`)),
    unmodifiedSince: parseHttpDate(header(`${prefix}if-unmodified-since`)),
  };
}

type Outcome = 'send' | 'not-modified' | 'failed';

/** In the order of RFC 9110 §13.2.2. Dates of HTTP have whole seconds. */
function evaluateConditions(
  { match, noneMatch, modifiedSince, unmodifiedSince }: Conditions,
  object: ObjectRecord,
): Outcome {
  const modified = Math.floor(object.modified / 1000);
  if (match !== undefined) {
    if (!matchesETag(match, object.eTag)) return 'failed';
  } else if (unmodifiedSince !== undefined && modified > unmodifiedSince) return 'failed';
  if (noneMatch !== undefined) return matchesETag(noneMatch, object.eTag) ? 'not-modified' : 'send';
  return modifiedSince !== undefined && modified <= modifiedSince ? 'not-modified' : 'send';
}

/** False if the client already has the current object. Throws 412 if a condition fails. */
export function isModified(header: Header, object: ObjectRecord): boolean {
  const outcome = evaluateConditions(readConditions(header), object);
  if (outcome === 'failed') throw new S3Error('PreconditionFailed');
  return outcome === 'send';
}

/** Checks the conditions on the source of a copy; throws 412 if one fails. */
export function checkSourceConditions(header: Header, source: ObjectRecord): void {
  if (evaluateConditions(readConditions(header, 'x-amz-copy-source-'), source) !== 'send')
    throw new S3Error('PreconditionFailed');
}

export function readWriteConditions(header: Header): WriteConditions {
  const [ifMatch, ifNoneMatch] = [header('if-match'), header('if-none-match')];
  return { ...(ifMatch !== undefined && { ifMatch }), ...(ifNoneMatch !== undefined && { ifNoneMatch }) };
}

function parseHttpDate(text: string | undefined): number | undefined {
  const time = Date.parse(text ?? '');
  return Number.isNaN(time) ? undefined : Math.floor(time / 1000);
}

/** A range of bytes of an object. */
export interface ByteRange {
  readonly start: number;
  readonly length: number;
}

/**
 * Parses a single range (RFC 9110 §14.1.2). Undefined means the whole object: there is no range, it is malformed, or
 * there are several, which a server may ignore. Throws if the object has no such bytes.
 */
export function readRange(header: string | undefined, size: number): ByteRange | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? '');
  const [, first = '', last = ''] = match ?? [];
  if (!match || (first === '' && last === '')) return undefined;
  if (first === '') {
    const length = Math.min(Number(last), size);
    if (length === 0) throw new S3Error('InvalidRange');
    return { start: size - length, length };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== '' && Number(last) < start) return undefined;
  if (start >= size) throw new S3Error('InvalidRange');
  return { start, length: end - start + 1 };
}

/** `x-amz-copy-source-range` is stricter: both ends are required, within the object. */
export function readCopyRange(header: string | undefined, size: number): ByteRange {
  if (header === undefined) return { start: 0, length: size };
  const match = /^bytes=(\d{1,15})-(\d{1,15})$/.exec(header.trim());
  const [start, end] = [Number(match?.[1]), Number(match?.[2])];
  if (!match || start > end || end >= size) {
    throw new S3Error('InvalidArgument', `The range ${header} is not within the source, which has ${size} bytes.`);
  }
  return { start, length: end - start + 1 };
}

interface CopySource {
  readonly bucket: string;
  readonly key: string;
}

/** `x-amz-copy-source: [/]bucket/key[?versionId=null]`, percent-encoded; taken literally if it cannot be decoded. */
export function readCopySource(header: string): CopySource {
  const [path = '', version] = header.split('?versionId=');
  if (version !== undefined && version !== '' && version !== 'null') throw new S3Error('NoSuchVersion');
  const text = decodeComponent(path) ?? path;
  const bare = text.startsWith('/') ? text.slice(1) : text;
  const slash = bare.indexOf('/');
  if (slash < 1 || slash === bare.length - 1) {
    throw new S3Error('InvalidArgument', 'Copy Source must mention the source bucket and key: sourcebucket/sourcekey.');
  }
  return { bucket: bare.slice(0, slash), key: bare.slice(slash + 1) };
}
