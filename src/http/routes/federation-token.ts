import type { FastifyInstance, FastifyRequest } from 'fastify';
import { federationGuard } from '../../federation/index.ts';
import type { AccessTokenSource, Authenticator } from '../../identity/index.ts';
import { findService, type Services } from '../../services/index.ts';
import { errors, noBody } from '../answers.ts';
import { servicePrincipal } from '../authentication.ts';
import { beforeBody } from '../body.ts';
import { Name, nameParam } from '../params.ts';

export interface FederationTokenDeps {
  readonly authenticator: Authenticator;
  readonly catalog: Pick<Services, 'services'>;
  readonly tokenSource: Pick<AccessTokenSource, 'revokeGrant'>;
}

export function federationTokenRoutes(app: FastifyInstance, deps: FederationTokenDeps): void {
  const { authenticator, catalog, tokenSource } = deps;
  const schema = {
    operationId: 'revokeFederationToken',
    summary: 'Revoke the refresh token of a federation at its issuer, and forget it',
    tags: ['federation'],
    params: Name,
    response: { 204: noBody('Revoked and forgotten'), ...errors(403, 409, 502) },
  };
  const who = async (request: FastifyRequest) =>
    servicePrincipal(request, authenticator, await catalog.services.get(nameParam(request)));
  app.delete('/system/federation/:name/token', { schema, ...beforeBody(who) }, async (request, reply) => {
    const name = nameParam(request);
    const principal = await who(request);
    const { service } = await findService(principal, 'change-federation', name, catalog);
    const refused = federationGuard(service, 'change-members');
    if (refused) throw refused;
    await tokenSource.revokeGrant(service);
    return reply.code(204).send();
  });
}
