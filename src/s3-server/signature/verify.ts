import { timingSafeEqual } from 'node:crypto';
import { S3Error } from '../lib/errors.ts';
import { canonicalRequest, stringToSign } from './canonical-request.ts';
import type { Claim } from './claim.ts';
import type { SigningSecret } from './signing-key.ts';
import type { Parameter } from './target.ts';

/** Fifteen minutes, as S3 and MinIO have it. */
const SKEW = 15 * 60_000;

export interface Verifiable {
  readonly method: string;
  readonly path: string;
  readonly query: readonly Parameter[];
  readonly header: (name: string) => string | undefined;
  readonly headerNames: readonly string[];
  readonly payload: string;
}

/** Throws unless the claim is signed by this secret, for this request, at a time that fits `now`. */
export function verifyV4(claim: Claim, secret: SigningSecret, request: Verifiable, now: number): void {
  checkTime(claim, now);
  checkSignedHeaders(claim, request);
  const query = claim.how === 'header' ? request.query : request.query.filter(([name]) => name !== 'X-Amz-Signature');
  const { method, path, header, payload } = request;
  const canonical = canonicalRequest({ method, path, query, header, payload, signedHeaders: claim.signedHeaders });
  const expected = secret.sign(claim.scope, stringToSign(canonical, claim.date, claim.scope));
  if (!sameText(expected, claim.signature)) throw new S3Error('SignatureDoesNotMatch');
}

/** In time that does not depend on where they differ. */
export function sameText(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function checkTime(claim: Claim, now: number): void {
  if (claim.expires === undefined) {
    if (Math.abs(now - claim.time) > SKEW) throw new S3Error('RequestTimeTooSkewed');
    return;
  }
  if (claim.time - now > SKEW) throw new S3Error('AccessDenied', 'Request is not valid yet.');
  if (now > claim.time + claim.expires * 1000) throw new S3Error('AccessDenied', 'Request has expired.');
}

/**
 * Whoever holds a presigned URL must not be able to add a header that means something, such as a copy source that the
 * signer may read. The hash of the payload may be added: it is part of the signature when the signer wants it to be.
 */
function checkSignedHeaders({ signedHeaders }: Claim, { headerNames }: Verifiable): void {
  if (!signedHeaders.includes('host')) throw new S3Error('AccessDenied', 'The header Host must be signed.');
  const unsigned = headerNames.find(
    (name) => name.startsWith('x-amz-') && name !== 'x-amz-content-sha256' && !signedHeaders.includes(name),
  );
  if (unsigned) throw new S3Error('AccessDenied', `The header ${unsigned} was sent but is not signed.`);
}
