import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { type Authenticator, isServiceToken } from '../../identity/index.ts';
import { findService, type Services } from '../../services/index.ts';
import { errors, noBody } from '../answers.ts';
import { servicePrincipal } from '../authentication.ts';
import { Name, nameParam } from '../params.ts';

export interface ServiceAuthDeps {
  readonly authenticator: Authenticator;
  readonly catalog: Services;
}

/**
 * Forward authentication for what a service exposes (docs/go-manager.md#forward-authentication): an empty 200 lets the
 * proxy pass.
 */
export function serviceAuthRoutes(app: FastifyInstance, { authenticator, catalog }: ServiceAuthDeps): void {
  const schema = {
    operationId: 'checkServiceAccess',
    summary: 'May the caller reach what the service exposes?',
    tags: ['services'],
    params: Name,
    querystring: Type.Object({ token: Type.Optional(Type.String({ description: 'the token of the service' })) }),
    response: { 200: noBody('The caller may'), ...errors(403) },
  };
  app.get('/system/services/:name/auth', { schema }, async (request, reply) => {
    const name = nameParam(request);
    const record = await catalog.services.get(name);
    const principal = await servicePrincipal(request, authenticator, record, offeredToken(request, name));
    const { service } = await findService(principal, 'reach', name, catalog);
    if (principal.kind === 'service-token') setCookie(request, reply, name, service.token.reveal());
    return reply.code(200).send();
  });
}

/** From the query, the query the proxy was called with, or the cookie: the first that looks like a token. */
function offeredToken(request: FastifyRequest, name: string): string | undefined {
  const { token } = request.query as { token?: string | string[] };
  const forwarded = String(request.headers['x-forwarded-uri'] ?? '').split('?')[1] ?? '';
  const candidates = [token, new URLSearchParams(forwarded).get('token'), readCookie(request, cookieName(name))];
  return candidates.find(
    (candidate): candidate is string => typeof candidate === 'string' && isServiceToken(candidate),
  );
}

const cookieName = (name: string) => `oscar_service_${name.replaceAll('-', '_')}_auth`;

function readCookie(request: FastifyRequest, name: string): string | undefined {
  const pairs = (request.headers.cookie ?? '').split(';').map((pair) => pair.trim());
  return pairs.find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1);
}

function setCookie(request: FastifyRequest, reply: FastifyReply, name: string, token: string): void {
  const secure = request.protocol === 'https' || request.headers['x-forwarded-proto'] === 'https';
  const path = `/system/services/${name}/exposed`;
  reply.header(
    'set-cookie',
    `${cookieName(name)}=${token}; Path=${path}; HttpOnly;${secure ? ' Secure;' : ''} SameSite=Lax`,
  );
}
