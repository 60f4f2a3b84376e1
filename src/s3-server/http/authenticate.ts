import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { S3Error } from '../lib/errors.ts';
import type { RequestTarget } from '../signature/request-target.ts';
import { readClaimV2, verifyV2 } from '../signature/signature-v2.ts';
import {
  ChunkSignatures,
  type Claim,
  checkTime,
  readHeaderClaim,
  readQueryClaim,
  verifyV4,
} from '../signature/signature-v4.ts';
import type { Identities } from '../store/identities.ts';
import { type Authenticated, headerNames, headerReader } from './exchange.ts';

const UNSIGNED = 'UNSIGNED-PAYLOAD';

interface AuthenticateDeps {
  readonly identities: Identities;
  readonly now: () => number;
}

/** Finds the signer of a request and verifies the signature. Rejects requests without a signature. */
export function authenticate(request: IncomingMessage, target: RequestTarget, deps: AuthenticateDeps): Authenticated {
  const header = headerReader(request);
  const { query } = target;
  const authorization = header('authorization');
  if (authorization !== undefined) {
    const claim = readHeaderClaim(authorization, header);
    if (claim.scope.service !== 's3') throw wrongService(claim);
    const payload = header('x-amz-content-sha256');
    if (payload === undefined) throw new S3Error('InvalidRequest', 'The header x-amz-content-sha256 is missing.');
    return authenticateV4(claim, request, target, payload, deps);
  }
  if (query.has('X-Amz-Signature') || query.has('X-Amz-Algorithm')) {
    const claim = readQueryClaim(query);
    if (claim.scope.service !== 's3') throw wrongService(claim);
    return authenticateV4(claim, request, target, query.get('X-Amz-Content-Sha256') ?? UNSIGNED, deps);
  }
  if (query.has('AWSAccessKeyId')) return authenticateV2(request, target, deps);
  throw new S3Error('AccessDenied', 'Access Denied. Requests must be signed.');
}

/**
 * Rejects a request to STS before its body is read if its access key is not known, or if it is too old. A client that sends the
 * hash of the body must also have signed it. Other clients do not send it, so their signature is verified with the body.
 */
export function precheckSts(request: IncomingMessage, target: RequestTarget, deps: AuthenticateDeps): void {
  const claim = readStsClaim(request);
  const announced = headerReader(request)('x-amz-content-sha256');
  if (announced !== undefined) authenticateV4(claim, request, target, announced, deps);
  else {
    deps.identities.signer(claim.accessKey, claim.token);
    checkTime(claim, deps.now());
  }
}

/** The same as `authenticate` for a request to STS: the scope names another service, and the hash is that of the received body. */
export function authenticateSts(request: IncomingMessage, target: RequestTarget, body: Buffer, deps: AuthenticateDeps) {
  return authenticateV4(readStsClaim(request), request, target, hash('sha256', body, 'hex'), deps);
}

function readStsClaim(request: IncomingMessage): Claim {
  const header = headerReader(request);
  const authorization = header('authorization');
  if (authorization === undefined) throw new S3Error('AccessDenied', 'Access Denied. Requests must be signed.');
  const claim = readHeaderClaim(authorization, header);
  if (claim.scope.service !== 'sts') throw wrongService(claim);
  return claim;
}

function authenticateV4(
  claim: Claim,
  request: IncomingMessage,
  { path, query }: RequestTarget,
  payload: string,
  { identities, now }: AuthenticateDeps,
): Authenticated {
  const signer = identities.signer(claim.accessKey, claim.token);
  const { secret } = signer;
  const verifiable = {
    method: request.method ?? '',
    path,
    query: query.entries,
    header: headerReader(request),
    headerNames: headerNames(request),
    payload,
  };
  verifyV4(claim, secret, verifiable, now());
  const signatures = payload.startsWith('STREAMING-AWS4-HMAC-SHA256-PAYLOAD')
    ? new ChunkSignatures(secret, claim.scope, claim.date, claim.signature)
    : undefined;
  return { signer, payload, signatures };
}

function authenticateV2(
  request: IncomingMessage,
  { rawPath, query }: RequestTarget,
  { identities, now }: AuthenticateDeps,
) {
  const claim = readClaimV2(query);
  const signer = identities.signer(claim.accessKey, claim.token);
  const header = headerReader(request);
  const names = headerNames(request);
  const verifiable = { method: request.method ?? '', rawPath, query: query.entries, header, headerNames: names };
  verifyV2(claim, signer.secret, verifiable, now());
  return { signer, payload: UNSIGNED, signatures: undefined };
}

function wrongService({ scope }: Claim): S3Error {
  return new S3Error(
    'AuthorizationHeaderMalformed',
    `The request is signed for the service ${scope.service}, which is not the service of this request.`,
  );
}
