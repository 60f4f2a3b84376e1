import { hash } from 'node:crypto';
import { formatScope, type Scope } from './signing-key.ts';
import { encodeComponent, encodePath, type Parameter } from './target.ts';

/** As much of a request as is signed. */
export interface SignedParts {
  readonly method: string;
  /** Decoded. */
  readonly path: string;
  readonly query: readonly Parameter[];
  /** Lower case, sorted, as the client lists them. */
  readonly signedHeaders: readonly string[];
  readonly header: (name: string) => string | undefined;
  /** Hex, or one of S3's words such as `UNSIGNED-PAYLOAD`. */
  readonly payload: string;
}

/** The text of AWS Signature Version 4, "Create a canonical request", with S3's rule that a path is encoded once. */
export function canonicalRequest(parts: SignedParts): string {
  const { method, path, query, signedHeaders, header, payload } = parts;
  let headers = '';
  for (const name of signedHeaders) headers += `${name}:${canonicalValue(header(name) ?? '')}\n`;
  return `${method}\n${encodePath(path)}\n${canonicalQuery(query)}\n${headers}\n${signedHeaders.join(';')}\n${payload}`;
}

/** Header values are the bytes that came, one character each, so the whole text is hashed as Latin-1. */
export function stringToSign(canonical: string, date: string, scope: Scope): string {
  const digest = hash('sha256', Buffer.from(canonical, 'latin1'), 'hex');
  return `AWS4-HMAC-SHA256\n${date}\n${formatScope(scope)}\n${digest}`;
}

/** Sorted by encoded name, then by encoded value. */
function canonicalQuery(query: readonly Parameter[]): string {
  if (query.length === 0) return '';
  const pairs = query.map(([name, value]) => [encodeComponent(name), encodeComponent(value)] as const);
  const sorted = pairs.toSorted(
    ([name, value], [otherName, otherValue]) => compare(name, otherName) || compare(value, otherValue),
  );
  return sorted.map(([name, value]) => `${name}=${value}`).join('&');
}

/** Encoded text is ASCII, so that the order of characters is that of bytes. */
function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** `trim` would also cut the byte A0, which ends letters such as "à" in UTF-8. */
export const trimSpaces = (value: string) => value.replace(/^[ \t]+|[ \t]+$/g, '');

function canonicalValue(value: string): string {
  return trimSpaces(value).replace(/ {2,}/g, ' ');
}
