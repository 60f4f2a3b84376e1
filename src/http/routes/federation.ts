import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { findService } from '../../catalog/index.ts';
import {
  changeMembers,
  type Federations,
  federationGuard,
  Ledgers,
  membersView,
  readIntention,
} from '../../federation/index.ts';
import type { Authenticator } from '../../identity/index.ts';
import type { Service } from '../../service/index.ts';
import { credentialOf, servicePrincipal } from '../authentication.ts';
import { jsonOf } from '../body.ts';
import { Name, nameOf } from '../params.ts';

export interface FederationDeps {
  readonly authenticator: Authenticator;
  readonly federations: Federations;
}

const tags = ['federation'];
const Include = Type.Object({
  include: Type.Optional(Type.String({ description: '`status` adds what is known of each member' })),
});

/** One resource in two spellings: the seeds say `replicas`, today's clients `federation` and `members` (design §7). */
export function federationRoutes(app: FastifyInstance, { authenticator, federations }: FederationDeps): void {
  const { coordination, workers } = federations;
  const who = async (request: FastifyRequest) =>
    servicePrincipal(request, authenticator, await workers.catalog.services.get(nameOf(request)));

  const spellings = [
    { url: '/system/federation/:name', key: 'members' },
    { url: '/system/replicas/:name', key: 'replicas' },
  ];
  for (const { url, key } of spellings) {
    const view = Type.Object({
      topology: Type.String(),
      [key]: Type.Union([Type.Array(Type.Unknown()), Type.Null()]),
      warnings: Type.Optional(Type.Array(Type.String({ description: 'members that do not have it yet, and why' }))),
    });
    const show = ({ definition }: Service, ledger?: Parameters<typeof membersView>[1]) => {
      const { topology, members } = membersView(definition, ledger);
      return { topology, [key]: members };
    };

    const read = { summary: 'Topology and members', tags, params: Name, querystring: Include, response: { 200: view } };
    app.get(url, { schema: read }, async (request) => {
      const { service } = await findService(await who(request), 'read-federation', nameOf(request), workers.catalog);
      const { include } = request.query as { include?: string };
      const uid = service.federation?.role === 'coordinator' ? service.federation.uid : undefined;
      const entry = include === 'status' && uid ? await new Ledgers(coordination).read(uid) : undefined;
      return show(service, entry?.ledger);
    });

    for (const [method, summary] of VERBS) {
      const schema = { summary, tags, params: Name, response: { 200: view } };
      app.route({
        method,
        url,
        schema,
        async handler(request) {
          const principal = await who(request);
          // What any change needs at least; `changeMembers` asks for more where it takes more.
          const { service } = await findService(principal, 'add-member', nameOf(request), workers.catalog);
          const refused = federationGuard(service, 'change-members');
          if (refused) throw refused;
          const credential = credentialOf(request);
          const intention = readIntention(method, bodyOf(request, method));
          const caller =
            principal.kind === 'service-token' ? { principal } : { principal, ...(credential && { credential }) };
          const { record, pending } = await changeMembers(caller, nameOf(request), intention, coordination);
          const warnings = pending.map(({ member, reason }) => `${member}: ${reason}`);
          return { ...show(record.service), ...(warnings.length > 0 && { warnings }) };
        },
      });
    }
  }
}

const VERBS = [
  ['POST', 'Add members'],
  ['PUT', 'Change members'],
  ['DELETE', 'Remove members; without a body all of them'],
] as const;

/** DELETE may come without a body. */
function bodyOf(request: FastifyRequest, method: string): unknown {
  const isEmpty = !(request.body instanceof Uint8Array) || request.body.length === 0;
  return method === 'DELETE' && isEmpty ? undefined : jsonOf(request);
}
