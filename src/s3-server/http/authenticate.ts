import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { S3Error } from '../lib/errors.ts';
import { writeXml } from '../lib/xml.ts';
import { ChunkSignatures } from '../signature/chunk-signature.ts';
import { type Claim, readHeaderClaim, readQueryClaim } from '../signature/claim.ts';
import { readClaimV2, verifyV2 } from '../signature/presigned-v2.ts';
import type { RequestTarget } from '../signature/target.ts';
import { verifyV4 } from '../signature/verify.ts';
import type { Identities, Signer } from '../store/identities.ts';
import type { S3Response } from './answer.ts';
import type { Authenticated } from './exchange.ts';
import { headerNames, headerReader } from './request-headers.ts';

const UNSIGNED = 'UNSIGNED-PAYLOAD';

interface AuthenticateDeps {
  readonly identities: Identities;
  readonly now: () => number;
}

/** Who signed this request? Nobody comes in without a signature. */
export function authenticate(request: IncomingMessage, target: RequestTarget, deps: AuthenticateDeps): Authenticated {
  const header = headerReader(request);
  const { query } = target;
  const authorization = header('authorization');
  if (authorization !== undefined) {
    const claim = readHeaderClaim(authorization, header);
    if (claim.scope.service !== 's3') throw wrongService(claim);
    const payload = header('x-amz-content-sha256');
    if (payload === undefined) throw new S3Error('InvalidRequest', 'The header x-amz-content-sha256 is missing.');
    return verified(claim, request, target, payload, deps);
  }
  if (query.has('X-Amz-Signature') || query.has('X-Amz-Algorithm')) {
    const claim = readQueryClaim(query);
    if (claim.scope.service !== 's3') throw wrongService(claim);
    return verified(claim, request, target, query.get('X-Amz-Content-Sha256') ?? UNSIGNED, deps);
  }
  if (query.has('AWSAccessKeyId')) return verifiedV2(request, target, deps);
  throw new S3Error('AccessDenied', 'Access Denied. Requests must be signed.');
}

/** The same for a request to STS: another service in the scope, and a body that is hashed when it is here. */
export function authenticateSts(request: IncomingMessage, target: RequestTarget, body: Buffer, deps: AuthenticateDeps) {
  const header = headerReader(request);
  const authorization = header('authorization');
  if (authorization === undefined) throw new S3Error('AccessDenied', 'Access Denied. Requests must be signed.');
  const claim = readHeaderClaim(authorization, header);
  if (claim.scope.service !== 'sts') throw wrongService(claim);
  return verified(claim, request, target, hash('sha256', body, 'hex'), deps);
}

function verified(
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

function verifiedV2(
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
  return new S3Error('AuthorizationHeaderMalformed', `The request is signed for the service ${scope.service}.`);
}

/** MinIO: seconds, least, most, and when nothing is asked for. */
const SHORTEST = 900;
const LONGEST = 31_536_000;
const USUAL = 3600;

/** A parameter that this server does not know may narrow the keys: they must not be wider than what was asked for. */
const KNOWN = new Set(['Action', 'Version', 'DurationSeconds', 'Policy', 'RoleArn', 'RoleSessionName', 'ExternalId']);

const NAMESPACE = 'https://sts.amazonaws.com/doc/2011-06-15/';

/** STS AssumeRole: keys for a while, with the rights of the caller or fewer. */
export async function assumeRole(
  signer: Signer,
  form: URLSearchParams,
  identities: Identities,
  requestId: string,
): Promise<S3Response> {
  const action = form.get('Action');
  if (action !== 'AssumeRole')
    throw new S3Error('InvalidParameterValue', `The action ${action} is not supported: use AssumeRole.`);
  const unknown = [...form.keys()].find((name) => !KNOWN.has(name));
  if (unknown !== undefined) {
    throw new S3Error('InvalidParameterValue', `The parameter ${unknown} is not supported by this server.`);
  }
  if (signer.identity.kind !== 'user') throw new S3Error('AccessDenied', 'AssumeRole needs the own keys of a user.');
  const seconds = Number(form.get('DurationSeconds') ?? USUAL);
  if (!Number.isInteger(seconds) || seconds < SHORTEST || seconds > LONGEST) {
    throw new S3Error('InvalidParameterValue', `DurationSeconds must be from ${SHORTEST} to ${LONGEST}.`);
  }
  const policy = form.get('Policy') || undefined;
  const keys = await identities.issue({ kind: 'session', parent: signer.principal, policy, ttl: seconds * 1000 });
  const content = {
    AssumeRoleResult: {
      AssumedRoleUser: { Arn: `arn:aws:sts:::assumed-role/${signer.principal}`, AssumedRoleId: keys.id },
      Credentials: {
        AccessKeyId: keys.accessKey,
        SecretAccessKey: keys.secretKey.reveal(),
        SessionToken: keys.sessionToken.reveal(),
        Expiration: new Date(keys.expiresAt).toISOString(),
      },
    },
    ResponseMetadata: { RequestId: requestId },
  };
  const headers = { 'content-type': 'application/xml', 'cache-control': 'no-store' };
  return { status: 200, headers, body: writeXml('AssumeRoleResponse', content, NAMESPACE) };
}

/** STS wraps its errors once more than S3 does. */
export function stsError({ status, code, message }: S3Error, requestId: string): S3Response {
  const content = { Error: { Type: 'Sender', Code: code, Message: message }, RequestId: requestId };
  const headers = { 'content-type': 'application/xml' };
  return { status, headers, body: writeXml('ErrorResponse', content, NAMESPACE) };
}
