import type { FastifyRequest } from 'fastify';
import { FederationError, MEMBER_HEADER, readMember, type SignedRequest } from '../peers/index.ts';

/**
 * The signed parts of a request, and the header with the claimed signer. A proxy has removed its own prefix, so the path
 * begins where the manager's paths do.
 */
export function signedParts(request: FastifyRequest): SignedRequest & { readonly header: string } {
  const [path = '', ...query] = (request.raw.url ?? '').split('?');
  const header = headerText(request, MEMBER_HEADER) ?? '';
  return { method: request.method, path, query: query.join('?'), body: signedBytes(request), header };
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
