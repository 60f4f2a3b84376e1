import { S3Error } from '../errors.ts';
import { checkHeader } from '../header-values.ts';
import { METADATA_BYTES } from '../limits.ts';
import type { Description } from '../store/object.ts';
import type { Exchange } from './exchange.ts';
import { readTagQuery } from './tags.ts';

/** Headers that are kept with an object and come back with it, besides `x-amz-meta-*`. */
const KEPT = ['cache-control', 'content-disposition', 'content-encoding', 'content-language', 'expires'];

const META = 'x-amz-meta-';

/** What the headers of a request say about the object that it writes. */
export function descriptionIn(exchange: Exchange): Description {
  refuseUnsupported(exchange);
  const headers: Record<string, string> = {};
  for (const name of KEPT) {
    const value = exchange.header(name);
    if (value !== undefined) headers[name] = value;
  }
  const encoding = withoutFraming(headers['content-encoding']);
  if (encoding) headers['content-encoding'] = encoding;
  else delete headers['content-encoding'];
  for (const [name, value] of metadataIn(exchange)) headers[name] = value;
  const tagging = exchange.setting('x-amz-tagging');
  return {
    contentType: exchange.header('content-type') || 'binary/octet-stream',
    headers,
    tags: tagging ? readTagQuery(tagging) : {},
  };
}

function metadataIn(exchange: Exchange): [string, string][] {
  const names = new Set([
    ...Object.keys(exchange.request.headers),
    ...exchange.target.query.entries.map(([name]) => name.toLowerCase()),
  ]);
  const metadata: [string, string][] = [];
  let bytes = 0;
  for (const name of names) {
    if (!name.startsWith(META)) continue;
    const value = exchange.setting(name);
    if (value === undefined) continue;
    checkHeader(name, value);
    bytes += name.length - META.length + value.length;
    metadata.push([name, value]);
  }
  if (bytes > METADATA_BYTES) throw new S3Error('MetadataTooLarge');
  return metadata;
}

/** `aws-chunked` says how the body travels, not what it is. */
function withoutFraming(encoding: string | undefined): string {
  const codings = (encoding ?? '').split(',').map((each) => each.trim());
  return codings.filter((each) => each !== '' && each !== 'aws-chunked').join(',');
}

/** To store an object unencrypted or unlocked that should be neither is worse than to refuse it. */
function refuseUnsupported(exchange: Exchange): void {
  const unsupported = Object.keys(exchange.request.headers).find(
    (name) => name.startsWith('x-amz-server-side-encryption') || name.startsWith('x-amz-object-lock'),
  );
  if (unsupported) throw new S3Error('NotImplemented', `The header ${unsupported} is not supported by this server.`);
}
