import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { type Catalog, findService } from '../../catalog/index.ts';
import { federationGuard } from '../../federation/index.ts';
import type { Authenticator, TokenMint } from '../../identity/index.ts';
import { servicePrincipal } from '../authentication.ts';
import { Name, nameOf } from '../params.ts';

export interface FederationTokenDeps {
  readonly authenticator: Authenticator;
  readonly catalog: Pick<Catalog, 'services'>;
  readonly mint: Pick<TokenMint, 'revokeGrantOf'>;
}

export function federationTokenRoutes(app: FastifyInstance, deps: FederationTokenDeps): void {
  const { authenticator, catalog, mint } = deps;
  const schema = {
    summary: 'Revoke the refresh token of a federation at its issuer, and forget it',
    tags: ['federation'],
    params: Name,
    response: { 204: Type.Null() },
  };
  app.delete('/system/federation/:name/token', { schema }, async (request, reply) => {
    const name = nameOf(request);
    const principal = await servicePrincipal(request, authenticator, await catalog.services.get(name));
    const { service } = await findService(principal, 'change-federation', name, catalog);
    const refused = federationGuard(service, 'change-members');
    if (refused) throw refused;
    await mint.revokeGrantOf(service);
    return reply.code(204).send();
  });
}
