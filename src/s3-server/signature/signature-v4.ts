import { createHash, createHmac, type Hash, hash, timingSafeEqual } from 'node:crypto';
import { trimEnds } from '../../lib/trim.ts';
import { S3Error } from '../lib/errors.ts';
import { encodeComponent, encodePath, type Parameter, type QueryParameters } from './request-target.ts';

/** The signature that a request carries, not verified yet. */
export interface Claim {
  readonly how: 'header' | 'query';
  readonly accessKey: string;
  readonly scope: Scope;
  readonly signedHeaders: readonly string[];
  readonly signature: string;
  /** The date as it is signed, and as a time in milliseconds. */
  readonly date: string;
  readonly time: number;
  /** Validity in seconds; only for signatures in the query. */
  readonly expires?: number;
  readonly token?: string;
}

const ALGORITHM = 'AWS4-HMAC-SHA256';

/** In S3 and MinIO, a presigned URL is valid for at most a week. */
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
  const date = requestDate(header);
  const time = readAmzDate(date);
  if (time === undefined) throw new S3Error('AccessDenied', 'The request needs a valid X-Amz-Date header.');
  if (credential.scope.date !== date.slice(0, 8))
    throw malformed('has a credential for another day than the date of the request');
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
  if (time === undefined || credential.scope.date !== date.slice(0, 8))
    throw wrong('needs a valid X-Amz-Date on the day of X-Amz-Credential');
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

/** Parsed from the right, because an access key may contain slashes. */
function readCredential(credential: string): { accessKey: string; scope: Scope } | undefined {
  const parts = credential.split('/');
  const [date = '', region, service, terminator] = parts.splice(-4);
  const accessKey = parts.join('/');
  if (!accessKey || !/^\d{8}$/.test(date) || region === undefined || !service || terminator !== 'aws4_request') {
    return undefined;
  }
  return { accessKey, scope: { date, region, service } };
}

/** X-Amz-Date or, if that is missing, the Date header of HTTP. */
function requestDate(header: (name: string) => string | undefined): string {
  const own = header('x-amz-date');
  if (own !== undefined) return own;
  const time = Date.parse(header('date') ?? '');
  return Number.isNaN(time) ? '' : new Date(time).toISOString().replace(/[-:]|\.\d{3}/g, '');
}

/** The basic format of ISO 8601 that signatures use: `20261115T201316Z`. */
export function formatAmzDate(time: number): string {
  return new Date(time).toISOString().replace(/[-:]|\.\d{3}/g, '');
}

/** The time in milliseconds; undefined if the text is not such a date. */
function readAmzDate(text: string): number | undefined {
  const match = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text);
  if (!match) return undefined;
  const [, year, month, day, hour, minute, second] = match;
  const time = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(time) ? undefined : time;
}

/** The tolerance for clocks, 15 minutes as in S3 and MinIO. */
const SKEW = 15 * 60_000;

export interface Verifiable {
  readonly method: string;
  readonly path: string;
  readonly query: readonly Parameter[];
  readonly header: (name: string) => string | undefined;
  readonly headerNames: readonly string[];
  readonly payload: string;
}

/** Throws unless the claim is signed with this secret, for this request, and valid at `now`. */
export function verifyV4(claim: Claim, secret: SigningSecret, request: Verifiable, now: number): void {
  checkTime(claim, now);
  checkSignedHeaders(claim, request);
  const query = claim.how === 'header' ? request.query : request.query.filter(([name]) => name !== 'X-Amz-Signature');
  const { method, path, header, payload } = request;
  const canonical = canonicalRequest({ method, path, query, header, payload, signedHeaders: claim.signedHeaders });
  const expected = secret.sign(claim.scope, stringToSign(canonical, claim.date, claim.scope));
  if (!equalConstantTime(expected, claim.signature)) throw new S3Error('SignatureDoesNotMatch');
}

/** Compares in a time that does not depend on where the texts differ. */
export function equalConstantTime(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** Throws unless the claim is valid at `now`. */
export function checkTime(claim: Claim, now: number): void {
  if (claim.expires === undefined) {
    if (Math.abs(now - claim.time) > SKEW) throw new S3Error('RequestTimeTooSkewed');
    return;
  }
  if (claim.time - now > SKEW) throw new S3Error('AccessDenied', 'Request is not valid yet.');
  if (now > claim.time + claim.expires * 1000) throw new S3Error('AccessDenied', 'Request has expired.');
}

/**
 * The holder of a presigned URL must not be able to add a header that has an effect, such as a copy source that the
 * signer can read. The hash of the payload may be added: it is part of the signature if the signer wants it to be.
 */
function checkSignedHeaders({ signedHeaders }: Claim, { headerNames }: Verifiable): void {
  const signed = new Set(signedHeaders);
  if (!signed.has('host')) throw new S3Error('AccessDenied', 'The header Host must be signed.');
  // The signed text repeats the value of each name: a long value under thousands of names would fill the memory.
  if (signed.size < signedHeaders.length) throw new S3Error('AccessDenied', 'A header is listed twice as signed.');
  const unsigned = headerNames.find(
    (name) => name.startsWith('x-amz-') && name !== 'x-amz-content-sha256' && !signed.has(name),
  );
  if (unsigned) throw new S3Error('AccessDenied', `The header ${unsigned} was sent but is not signed.`);
}

/** The parts of a request that are signed. */
export interface SignedParts {
  readonly method: string;
  /** Decoded. */
  readonly path: string;
  readonly query: readonly Parameter[];
  /** Lower case, sorted, as the client lists them. */
  readonly signedHeaders: readonly string[];
  readonly header: (name: string) => string | undefined;
  /** SHA-256 in hex, or one of S3's constants such as `UNSIGNED-PAYLOAD`. */
  readonly payload: string;
}

/** AWS Signature Version 4, "Create a canonical request", with S3's rule that the path is encoded once. */
export function canonicalRequest(parts: SignedParts): string {
  const { method, path, query, signedHeaders, header, payload } = parts;
  let headers = '';
  for (const name of signedHeaders) headers += `${name}:${canonicalValue(header(name) ?? '')}\n`;
  return `${method}\n${encodePath(path)}\n${canonicalQuery(query)}\n${headers}\n${signedHeaders.join(';')}\n${payload}`;
}

/** Node.js gives header values as one character per received byte, so the whole text is hashed as Latin-1. */
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

/** Encoded text is ASCII, so the order of characters is the order of bytes. */
function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** `trim` would also remove the byte A0, with which letters such as "à" end in UTF-8. */
export const trimSpaces = (value: string) => trimEnds(value, (character) => character === ' ' || character === '\t');

function canonicalValue(value: string): string {
  return trimSpaces(value).replace(/ {2,}/g, ' ');
}

/** The scope of a signature: `<date>/<region>/<service>/aws4_request`. */
export interface Scope {
  /** Eight digits. */
  readonly date: string;
  readonly region: string;
  readonly service: string;
}

export function formatScope({ date, region, service }: Scope): string {
  return `${date}/${region}/${service}/aws4_request`;
}

const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest();

/**
 * How many derived keys are cached for one secret. A client normally uses one a day. The limit is for clients that send
 * many regions, which they may choose freely: without it they could fill the memory.
 */
const MAX_CACHED_KEYS = 8;

/** A secret with a cache of the signing keys derived from it: four HMACs each, the same for all requests of a day. */
export class SigningSecret {
  readonly #secret: string;
  readonly #keys = new Map<string, Buffer>();

  constructor(secret: string) {
    this.#secret = secret;
  }

  /** Lower-case hex, for version 4. */
  sign(scope: Scope, text: string): string {
    return createHmac('sha256', this.#keyFor(scope)).update(text, 'latin1').digest('hex');
  }

  /** Base64, for version 2. */
  signV2(text: string): string {
    return createHmac('sha1', this.#secret).update(text, 'latin1').digest('base64');
  }

  #keyFor(scope: Scope): Buffer {
    const name = formatScope(scope);
    const known = this.#keys.get(name);
    if (known) return known;
    const dated = hmac(`AWS4${this.#secret}`, scope.date);
    const key = hmac(hmac(hmac(dated, scope.region), scope.service), 'aws4_request');
    if (this.#keys.size >= MAX_CACHED_KEYS) this.#keys.clear();
    this.#keys.set(name, key);
    return key;
  }
}

const EMPTY_SHA256 = hash('sha256', '', 'hex');

/** Verifies the signatures of a body in signed chunks: each covers its chunk and the signature before it. */
export class ChunkSignatures {
  readonly #secret: SigningSecret;
  readonly #scope: Scope;
  readonly #date: string;
  #previous: string;
  #hash: Hash = createHash('sha256');

  /** `seed` is the signature of the request itself. */
  constructor(secret: SigningSecret, scope: Scope, date: string, seed: string) {
    this.#secret = secret;
    this.#scope = scope;
    this.#date = date;
    this.#previous = seed;
  }

  data(bytes: Uint8Array): void {
    this.#hash.update(bytes);
  }

  endOfChunk(signature: string): void {
    const digest = this.#hash.digest('hex');
    this.#hash = createHash('sha256');
    this.#check('AWS4-HMAC-SHA256-PAYLOAD', `${EMPTY_SHA256}\n${digest}`, signature);
  }

  /** `trailer` has the lines of the trailer as `name:value\n`. */
  trailer(trailer: string, signature: string): void {
    this.#check('AWS4-HMAC-SHA256-TRAILER', hash('sha256', trailer, 'hex'), signature);
  }

  #check(kind: string, digests: string, signature: string): void {
    const text = `${kind}\n${this.#date}\n${formatScope(this.#scope)}\n${this.#previous}\n${digests}`;
    const expected = this.#secret.sign(this.#scope, text);
    if (!equalConstantTime(expected, signature)) throw new S3Error('SignatureDoesNotMatch');
    this.#previous = expected;
  }
}
