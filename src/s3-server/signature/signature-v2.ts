import { S3Error } from '../lib/errors.ts';
import type { Parameter, QueryParameters } from './request-target.ts';
import { equalConstantTime, type SigningSecret, trimSpaces } from './signature-v4.ts';

/** Query parameters that version 2 signs. */
const SIGNED_QUERIES = new Set([
  'acl',
  'cors',
  'delete',
  'lifecycle',
  'location',
  'logging',
  'notification',
  'partNumber',
  'policy',
  'requestPayment',
  'response-cache-control',
  'response-content-disposition',
  'response-content-encoding',
  'response-content-language',
  'response-content-type',
  'response-expires',
  'tagging',
  'torrent',
  'uploadId',
  'uploads',
  'versionId',
  'versioning',
  'versions',
  'website',
]);

/** `AWSAccessKeyId`, `Signature` and `Expires` in the query: boto3 and the aws command presign like this by default. */
export interface ClaimV2 {
  readonly accessKey: string;
  readonly signature: string;
  readonly expires: string;
  readonly token?: string;
}

export function readClaimV2(query: QueryParameters): ClaimV2 {
  const [accessKey, signature, expires] = ['AWSAccessKeyId', 'Signature', 'Expires'].map((name) => query.get(name));
  if (!accessKey || !signature || !expires || !/^\d{1,12}$/.test(expires)) {
    throw new S3Error(
      'AuthorizationQueryParametersError',
      'The query needs AWSAccessKeyId, Signature and Expires; or sign with version 4 (signature_version=s3v4).',
    );
  }
  const token = query.get('x-amz-security-token');
  return { accessKey, signature, expires, ...(token !== undefined && { token }) };
}

export interface VerifiableV2 {
  readonly method: string;
  readonly rawPath: string;
  readonly query: readonly Parameter[];
  readonly header: (name: string) => string | undefined;
  readonly headerNames: readonly string[];
}

export function verifyV2(claim: ClaimV2, secret: SigningSecret, request: VerifiableV2, now: number): void {
  if (now > Number(claim.expires) * 1000) throw new S3Error('AccessDenied', 'Request has expired.');
  const expected = secret.signV2(stringToSignV2(claim, request));
  if (equalConstantTime(expected, claim.signature)) return;
  throw new S3Error(
    'SignatureDoesNotMatch',
    'The version 2 signature of the URL does not match. Check your key, or sign with version 4 (signature_version=s3v4).',
  );
}

export function stringToSignV2(claim: Pick<ClaimV2, 'expires'>, request: VerifiableV2): string {
  const { method, rawPath, query, header, headerNames } = request;
  const amz = new Map<string, string>();
  // Clients that presign a URL move these headers into the query and sign them too.
  for (const [name, value] of [...headerNames.map((each) => [each, header(each) ?? ''] as const), ...query]) {
    const lower = name.toLowerCase();
    if (!lower.startsWith('x-amz-')) continue;
    const before = amz.get(lower);
    amz.set(lower, before === undefined ? trimSpaces(value) : `${before},${trimSpaces(value)}`);
  }
  const headers = [...amz].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => `${name}:${value}\n`);
  const signed = query
    .filter(([name]) => SIGNED_QUERIES.has(name))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => (value === '' ? name : `${name}=${value}`));
  const resource = signed.length > 0 ? `${rawPath}?${signed.join('&')}` : rawPath;
  const lines = [method, header('content-md5') ?? '', header('content-type') ?? '', claim.expires];
  return `${lines.join('\n')}\n${headers.join('')}${resource}`;
}
