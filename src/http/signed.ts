import type { FastifyRequest } from 'fastify';
import {
  DIGEST_HEADER,
  FederationError,
  MEMBER_HEADER,
  readContentDigest,
  readMember,
  type SignedRequest,
} from '../peers/index.ts';
import { hasBody } from './body.ts';

/**
 * The signed parts of a request, and the header with the claimed signer. A proxy has removed its own prefix, so the path
 * begins where the manager's paths do.
 */
export function signedParts(request: FastifyRequest): SignedRequest & { readonly header: string } {
  const [path = '', ...query] = (request.raw.url ?? '').split('?');
  const header = headerText(request, MEMBER_HEADER) ?? '';
  return { method: request.method, path, query: query.join('?'), body: signedBytes(request), header };
}

/**
 * The same before the body is read: the digest is the one that the request announces. A body without a digest matches no
 * signature.
 */
export function announcedParts(request: FastifyRequest): ReturnType<typeof signedParts> {
  const digest = hasBody(request) ? (readContentDigest(headerText(request, DIGEST_HEADER)) ?? '') : undefined;
  return { ...signedParts(request), digest };
}

/** The claimed signer of a request. Nothing is verified. */
export function readMemberClaim(request: FastifyRequest): { readonly uid: string; readonly member: string } {
  const read = readMember(headerText(request, MEMBER_HEADER) ?? '');
  if ('value' in read) return read.value;
  throw new FederationError('bad-signature', 'the header X-Oscar-Member is malformed');
}

export function headerText({ headers }: FastifyRequest, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(',') : value;
}

export const signedBytes = ({ body }: FastifyRequest) => (body instanceof Uint8Array ? body : new Uint8Array());
