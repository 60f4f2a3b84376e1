import type { IncomingMessage } from 'node:http';
import { matchesWildcard } from '../access/policy.ts';
import { S3Error } from '../lib/errors.ts';
import { childElements, readXml } from '../lib/xml.ts';

/** One rule of a bucket's CORS configuration. */
export interface CorsRule {
  readonly origins: readonly string[];
  readonly methods: readonly string[];
  readonly headers: readonly string[];
  readonly exposed: readonly string[];
  readonly maxAge: string | undefined;
}

/** The response headers that MinIO exposes to pages. */
const EXPOSED =
  'Date, Etag, Server, Connection, Accept-Ranges, Content-Range, Content-Encoding, Content-Length, Content-Type, ' +
  'Content-Disposition, Last-Modified, Content-Language, Cache-Control, Retry-After, X-Amz-Bucket-Region, Expires, ' +
  'X-Amz*, ETag, x-amz-request-id, x-amz-checksum-crc32, x-amz-checksum-crc32c, x-amz-checksum-crc64nvme, ' +
  'x-amz-checksum-sha1, x-amz-checksum-sha256, x-amz-checksum-type, x-amz-version-id, x-amz-tagging-count';

type CorsHeaders = Record<string, string>;

/** Parses a CORS configuration; throws if it is invalid. */
export function readCors(text: string): CorsRule[] {
  const document = readXml(text, 'CORSConfiguration');
  const rules = childElements(document, 'CORSRule').map((rule) => {
    const texts = (name: string) => childElements(rule, name).map((each) => each.text.trim());
    return {
      origins: texts('AllowedOrigin'),
      methods: texts('AllowedMethod'),
      headers: texts('AllowedHeader').map((each) => each.toLowerCase()),
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
  const names = (asked ?? '').split(',').map((name) => name.trim().toLowerCase());
  const rule = rules?.find(
    (each) =>
      matchesRule(each, origin, method) &&
      names.every((name) => name === '' || each.headers.some((pattern) => matchesWildcard(pattern, name))),
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
  return origins.some((each) => matchesWildcard(each, origin)) && methods.includes(method);
}
