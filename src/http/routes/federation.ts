import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { type Catalog, findService } from '../../catalog/index.ts';
import type { Authenticator } from '../../identity/index.ts';
import { servicePrincipal } from '../authentication.ts';
import { Name, nameOf } from '../params.ts';

export interface FederationDeps {
  readonly authenticator: Authenticator;
  readonly catalog: Catalog;
}

/** One resource in two spellings: the seeds say `replicas`, today's clients `federation` and `members` (design §7). */
export function federationRoutes(app: FastifyInstance, { authenticator, catalog }: FederationDeps): void {
  const spellings = [
    { url: '/system/federation/:name', key: 'members' },
    { url: '/system/replicas/:name', key: 'replicas' },
  ];
  for (const { url, key } of spellings) {
    const view = Type.Object({ topology: Type.String(), [key]: Type.Union([Type.Array(Type.Unknown()), Type.Null()]) });
    const schema = { summary: 'Topology and members', tags: ['federation'], params: Name, response: { 200: view } };
    app.get(url, { schema }, async (request) => {
      const name = nameOf(request);
      const principal = await servicePrincipal(request, authenticator, await catalog.services.get(name));
      const { service } = await findService(principal, 'read-federation', name, catalog);
      const { topology = 'none', members = null } = service.definition.federation ?? {};
      return { topology, [key]: members };
    });
  }
}
