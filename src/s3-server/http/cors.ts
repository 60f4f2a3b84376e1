import type { IncomingMessage } from 'node:http';
import { S3Error } from '../lib/errors.ts';
import { compileWildcard, type TextMatcher } from '../lib/wildcard.ts';
import { childElements, readXml } from '../lib/xml.ts';

/** One rule of a bucket's CORS configuration. */
export interface CorsRule {
  readonly origins: readonly TextMatcher[];
  readonly methods: readonly string[];
  readonly headers: readonly TextMatcher[];
  readonly exposed: readonly string[];
  readonly maxAge: string | undefined;
}

/** The response headers that MinIO exposes to pages. */
const EXPOSED =
  'Date, Etag, Server, Connection, Accept-Ranges, Content-Range, Content-Encoding, Content-Length, Content-Type, ' +
  'Content-Disposition, Last-Modified, Content-Language, Cache-Control, Retry-After, X-Amz-Bucket-Region, Expires, ' +
  'X-Amz*, ETag, x-amz-request-id, x-amz-checksum-crc32, x-amz-checksum-crc32c, x-amz-checksum-crc64nvme, ' +
  'x-amz-checksum-sha1, x-amz-checksum-sha256, x-amz-checksum-type, x-amz-version-id, x-amz-tagging-count';

/** Parsed configurations that are kept. A configuration is needed for each request of a page, also for unsigned ones. */
const MAX_PARSED = 100;

/** The CORS rules of buckets, parsed once. */
export class CorsRules {
  readonly #parsed = new Map<string, { readonly text: string; readonly rules: readonly CorsRule[] }>();

  /** The rules in `text`, the configuration that the bucket has now. */
  get(bucket: string, text: string): readonly CorsRule[] {
    const known = this.#parsed.get(bucket);
    if (known?.text === text) return known.rules;
    const rules = readCors(text);
    this.#parsed.delete(bucket);
    this.#parsed.set(bucket, { text, rules });
    const [oldest] = this.#parsed.keys();
    if (this.#parsed.size > MAX_PARSED && oldest !== undefined) this.#parsed.delete(oldest);
    return rules;
  }
}

type CorsHeaders = Record<string, string>;

/** S3's limit for the characters of a CORS configuration. */
const LONGEST = 64 * 1024;

/** Names of headers that one preflight request may list. Pages send a few. */
const MAX_REQUESTED_HEADERS = 100;

/** Parses a CORS configuration; throws if it is invalid. */
export function readCors(text: string): CorsRule[] {
  if (text.length > LONGEST) throw new S3Error('MaxMessageLengthExceeded');
  const document = readXml(text, 'CORSConfiguration');
  const rules = childElements(document, 'CORSRule').map((rule) => {
    const texts = (name: string) => childElements(rule, name).map((each) => each.text.trim());
    return {
      origins: texts('AllowedOrigin').map(compileWildcard),
      methods: texts('AllowedMethod'),
      headers: texts('AllowedHeader').map((each) => compileWildcard(each.toLowerCase())),
      exposed: texts('ExposeHeader'),
      maxAge: texts('MaxAgeSeconds')[0],
    };
  });
  const whole = rules.every(({ origins, methods }) => origins.length > 0 && methods.length > 0);
  if (rules.length === 0 || rules.length > 100 || !whole) throw new S3Error('MalformedXML');
  return rules;
}

/** The CORS headers of a response. Without a configuration every origin is allowed, as on MinIO. */
export function corsHeaders({ headers, method }: IncomingMessage, rules: readonly CorsRule[] | undefined): CorsHeaders {
  const { origin } = headers;
  if (origin === undefined) return {};
  const rule = rules?.find((each) => matchesRule(each, origin, method ?? ''));
  if (rules && !rule) return {};
  return {
    'access-control-allow-origin': origin,
    'access-control-allow-credentials': 'true',
    'access-control-expose-headers': rule ? rule.exposed.join(', ') : EXPOSED,
    vary: 'Origin',
  };
}

/** The headers of a preflight response; undefined if the bucket's configuration does not allow the request. */
export function preflight(
  { headers }: IncomingMessage,
  rules: readonly CorsRule[] | undefined,
): CorsHeaders | undefined {
  const { origin } = headers;
  const method = headers['access-control-request-method'];
  const asked = headers['access-control-request-headers'];
  if (origin === undefined || method === undefined) return undefined;
  const names = new Set((asked ?? '').split(',').map((name) => name.trim().toLowerCase()));
  if (names.size > MAX_REQUESTED_HEADERS) return undefined;
  const rule = rules?.find(
    (each) =>
      matchesRule(each, origin, method) &&
      [...names].every((name) => name === '' || each.headers.some((matches) => matches(name))),
  );
  if (rules && !rule) return undefined;
  return {
    'access-control-allow-origin': origin,
    'access-control-allow-methods': method,
    ...(asked !== undefined && { 'access-control-allow-headers': asked }),
    'access-control-allow-credentials': 'true',
    ...(rule?.maxAge !== undefined && /^\d+$/.test(rule.maxAge) && { 'access-control-max-age': rule.maxAge }),
    vary: 'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
  };
}

function matchesRule({ origins, methods }: CorsRule, origin: string, method: string): boolean {
  return methods.includes(method) && origins.some((matches) => matches(origin));
}
