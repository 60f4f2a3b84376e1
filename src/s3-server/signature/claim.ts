import { S3Error } from '../lib/errors.ts';
import type { Scope } from './signing-key.ts';
import type { QueryParameters } from './target.ts';

/** What a request says about who signed it, not yet believed. */
export interface Claim {
  readonly how: 'header' | 'query';
  readonly accessKey: string;
  readonly scope: Scope;
  readonly signedHeaders: readonly string[];
  readonly signature: string;
  /** As it is signed, and as a time. */
  readonly date: string;
  readonly time: number;
  /** Seconds that it holds; for signatures in the query alone. */
  readonly expires?: number;
  readonly token?: string;
}

const ALGORITHM = 'AWS4-HMAC-SHA256';

/** S3 and MinIO: a presigned URL holds for at most a week. */
const LONGEST_EXPIRY = 604_800;

/** `Authorization: AWS4-HMAC-SHA256 Credential=…, SignedHeaders=…, Signature=…`, with or without spaces. */
export function readHeaderClaim(authorization: string, header: (name: string) => string | undefined): Claim {
  const malformed = (why: string) => new S3Error('AuthorizationHeaderMalformed', `The authorization header ${why}.`);
  if (!authorization.startsWith(`${ALGORITHM} `))
    throw malformed(`must begin with ${ALGORITHM}: use signature version 4`);
  const fields = new Map<string, string>();
  for (const field of authorization.slice(ALGORITHM.length + 1).split(',')) {
    const equals = field.indexOf('=');
    fields.set(field.slice(0, equals).trim(), field.slice(equals + 1).trim());
  }
  const signature = fields.get('Signature');
  const signedHeaders = fields.get('SignedHeaders');
  if (!signature || !signedHeaders) throw malformed('needs Credential, SignedHeaders and Signature');
  const credential = readCredential(fields.get('Credential') ?? '');
  if (!credential) throw malformed('has no credential of the form <key>/<date>/<region>/<service>/aws4_request');
  const date = dateOf(header);
  const time = readAmzDate(date);
  if (time === undefined) throw new S3Error('AccessDenied', 'The request needs a valid X-Amz-Date header.');
  if (credential.scope.date !== date.slice(0, 8)) throw malformed('names another day than the date of the request');
  const token = header('x-amz-security-token');
  return {
    how: 'header',
    ...credential,
    signedHeaders: signedHeaders.split(';'),
    signature,
    date,
    time,
    ...(token !== undefined && { token }),
  };
}

/** The same in the query: `X-Amz-Algorithm`, `X-Amz-Credential` and so on. */
export function readQueryClaim(query: QueryParameters): Claim {
  const wrong = (why: string) => new S3Error('AuthorizationQueryParametersError', `The presigned query ${why}.`);
  if (query.get('X-Amz-Algorithm') !== ALGORITHM) throw wrong(`must have X-Amz-Algorithm=${ALGORITHM}`);
  const credential = readCredential(query.get('X-Amz-Credential') ?? '');
  if (!credential) throw wrong('has no X-Amz-Credential of the form <key>/<date>/<region>/<service>/aws4_request');
  const signature = query.get('X-Amz-Signature');
  const signedHeaders = query.get('X-Amz-SignedHeaders');
  if (!signature || !signedHeaders) throw wrong('needs X-Amz-SignedHeaders and X-Amz-Signature');
  const date = query.get('X-Amz-Date') ?? '';
  const time = readAmzDate(date);
  if (time === undefined || credential.scope.date !== date.slice(0, 8)) throw wrong('needs an X-Amz-Date that fits');
  const expires = Number(query.get('X-Amz-Expires'));
  if (!Number.isInteger(expires) || expires < 0) throw wrong('needs X-Amz-Expires, a number of seconds');
  if (expires > LONGEST_EXPIRY) throw wrong(`must have X-Amz-Expires of a week (${LONGEST_EXPIRY} seconds) or less`);
  const token = query.get('X-Amz-Security-Token');
  return {
    how: 'query',
    ...credential,
    signedHeaders: signedHeaders.split(';'),
    signature,
    date,
    time,
    expires,
    ...(token !== undefined && { token }),
  };
}

/** Read from the right, because an access key may itself have slashes. */
function readCredential(credential: string): { accessKey: string; scope: Scope } | undefined {
  const parts = credential.split('/');
  const [date = '', region, service, terminator] = parts.splice(-4);
  const accessKey = parts.join('/');
  if (!accessKey || !/^\d{8}$/.test(date) || region === undefined || !service || terminator !== 'aws4_request') {
    return undefined;
  }
  return { accessKey, scope: { date, region, service } };
}

/** X-Amz-Date, or the Date header in the form that HTTP has for it. */
function dateOf(header: (name: string) => string | undefined): string {
  const own = header('x-amz-date');
  if (own !== undefined) return own;
  const time = Date.parse(header('date') ?? '');
  return Number.isNaN(time) ? '' : new Date(time).toISOString().replace(/[-:]|\.\d{3}/g, '');
}

/** `20261115T201316Z`, the basic form of ISO 8601 that signatures carry. */
export function formatAmzDate(time: number): string {
  return new Date(time).toISOString().replace(/[-:]|\.\d{3}/g, '');
}

/** Milliseconds, or undefined for what is no such date. */
function readAmzDate(text: string): number | undefined {
  const match = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text);
  if (!match) return undefined;
  const [, year, month, day, hour, minute, second] = match;
  const time = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(time) ? undefined : time;
}
