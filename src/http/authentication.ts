import type { FastifyRequest } from 'fastify';
import { type Admin, type Authenticator, type Principal, readAuthorization, type User } from '../identity/index.ts';
import type { Credential } from '../peers/index.ts';
import type { ServiceRecord } from '../ports/index.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Who is asking, for the log; set once authentication has said so. */
    who: string;
  }
}

/** For `/system` routes: the administrator or a user. */
export async function systemPrincipal(request: FastifyRequest, authenticator: Authenticator): Promise<Admin | User> {
  const principal = await authenticator.system(authorizationsOf(request));
  request.who = nameOf(principal);
  return principal;
}

/** For routes of one service, which take its token too. */
export async function servicePrincipal(
  request: FastifyRequest,
  authenticator: Authenticator,
  record: ServiceRecord | undefined,
  extraToken?: string,
): Promise<Principal> {
  const principal = await authenticator.service(authorizationsOf(request), {
    service: record?.service,
    allowBasic: true,
    extraToken,
  });
  request.who = nameOf(principal);
  return principal;
}

/** For routes that invoke a service: a user or its token; Basic is refused (docs/security.md#who-asks). */
export async function serviceBearer(
  request: FastifyRequest,
  authenticator: Authenticator,
  record: ServiceRecord | undefined,
): Promise<Principal> {
  const route = { service: record?.service, allowBasic: false };
  const principal = await authenticator.service(authorizationsOf(request), route);
  request.who = nameOf(principal);
  return principal;
}

/** What the caller was known by, for other managers that are asked in their name. */
export function credentialOf(request: FastifyRequest): Credential | undefined {
  const given = readAuthorization(authorizationsOf(request));
  if (given.scheme === 'bearer') return { kind: 'bearer', token: given.token };
  return given.scheme === 'basic' && given.account ? { kind: 'basic', ...given.account } : undefined;
}

/** Every `Authorization` header that was sent: Node would silently keep the first one only. */
function authorizationsOf({ raw, headers }: FastifyRequest): string[] {
  if (headers.authorization === undefined) return [];
  const values: string[] = [];
  for (let i = 0; i < raw.rawHeaders.length; i += 2) {
    if (raw.rawHeaders[i]?.toLowerCase() === 'authorization') values.push(raw.rawHeaders[i + 1] ?? '');
  }
  return values;
}

function nameOf(principal: Principal): string {
  switch (principal.kind) {
    case 'admin':
      return 'admin';
    case 'user':
      return principal.uid;
    case 'service-token':
      return `token of ${principal.service}`;
  }
}
