import type { FastifyRequest } from 'fastify';
import { type Admin, type Authenticator, type Principal, readAuthorization, type User } from '../identity/index.ts';
import {
  type Credential,
  DIGEST_HEADER,
  FederationError,
  MEMBER_HEADER,
  readContentDigest,
  readMember,
  type SignedRequest,
} from '../peers/index.ts';
import type { ServiceRecord } from '../ports/index.ts';
import { hasBody } from './body.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The authenticated caller, for the log. */
    who: string;
  }
}

/** For `/system` routes: the administrator or a user. */
export async function systemPrincipal(request: FastifyRequest, authenticator: Authenticator): Promise<Admin | User> {
  const principal = await authenticator.system(authorizationHeaders(request), request.ip);
  noteCaller(request, principal);
  return principal;
}

/** For routes of one service, which also accept its token. */
export async function servicePrincipal(
  request: FastifyRequest,
  authenticator: Authenticator,
  record: ServiceRecord | undefined,
  extraToken?: string,
): Promise<Principal> {
  const route = { service: record?.service, allowBasic: true, extraToken };
  const principal = await authenticator.service(authorizationHeaders(request), route, request.ip);
  noteCaller(request, principal);
  return principal;
}

/** For routes that invoke a service: a user or the service token; Basic is rejected (docs/security.md#who-asks). */
export async function serviceBearer(
  request: FastifyRequest,
  authenticator: Authenticator,
  record: ServiceRecord | undefined,
): Promise<Principal> {
  const route = { service: record?.service, allowBasic: false };
  const principal = await authenticator.service(authorizationHeaders(request), route, request.ip);
  noteCaller(request, principal);
  return principal;
}

/** The caller's own credential, for requests to other managers on the caller's behalf. */
export function callerCredential(request: FastifyRequest): Credential | undefined {
  const given = readAuthorization(authorizationHeaders(request));
  if (given.scheme === 'bearer') return { kind: 'bearer', token: given.token };
  return given.scheme === 'basic' && given.account ? { kind: 'basic', ...given.account } : undefined;
}

/** The caller of a change of members. A service token is not valid at other clusters, so it is not passed on. */
export function federationCaller(principal: Principal, request: FastifyRequest) {
  const credential = principal.kind === 'service-token' ? undefined : callerCredential(request);
  return { principal, ...(credential && { credential }) };
}

/** All `Authorization` headers of the request: Node would silently keep only the first. */
function authorizationHeaders({ raw, headers }: FastifyRequest): string[] {
  if (headers.authorization === undefined) return [];
  const values: string[] = [];
  for (let i = 0; i < raw.rawHeaders.length; i += 2) {
    if (raw.rawHeaders[i]?.toLowerCase() === 'authorization') values.push(raw.rawHeaders[i + 1] ?? '');
  }
  return values;
}

function noteCaller(request: FastifyRequest, principal: Principal): void {
  request.who = principalName(principal);
  request.actor = toActor(principal);
}

function toActor(principal: Principal): string {
  switch (principal.kind) {
    case 'admin':
      return 'admin';
    case 'user':
      return `user:${principal.uid}`;
    case 'service-token':
      return `service-token:${principal.service}`;
  }
}

function principalName(principal: Principal): string {
  switch (principal.kind) {
    case 'admin':
      return 'admin';
    case 'user':
      return principal.uid;
    case 'service-token':
      return `token of ${principal.service}`;
  }
}

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
