import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { findService } from '../../catalog/index.ts';
import {
  authenticateWorker,
  type Changed,
  changeMembers,
  type Federations,
  isWorker,
  Ledgers,
  membersView,
  Nonces,
  passedAnswer,
  passOn,
  readIntention,
  readPassedChange,
} from '../../federation/index.ts';
import type { Authenticator, Principal } from '../../identity/index.ts';
import type { Service } from '../../service/index.ts';
import { credentialOf, serviceBearer, servicePrincipal } from '../authentication.ts';
import { jsonOf, valueOf } from '../body.ts';
import { Name, nameOf } from '../params.ts';
import { signedPartsOf } from '../signed.ts';

export interface FederationDeps {
  readonly authenticator: Authenticator;
  readonly federations: Federations;
}

const tags = ['federation'];
const Include = Type.Object({
  include: Type.Optional(Type.String({ description: '`status` adds what is known of each member' })),
});
const Force = Type.Object({
  force: Type.Optional(Type.String({ description: '`true` ends members at once, whatever jobs they have' })),
});
const Warnings = Type.Optional(Type.Array(Type.String({ description: 'members that do not have it yet, and why' })));
const Conditions = Type.Optional(
  Type.Array(Type.Object({ type: Type.String(), reason: Type.String() }), {
    description: 'what its owner has to know, with `include=status`',
  }),
);

/** One resource in two spellings: the seeds say `replicas`, today's clients `federation` and `members` (design §7). */
export function federationRoutes(app: FastifyInstance, deps: FederationDeps): void {
  passedChangesRoute(app, deps);
  const spellings = [
    { url: '/system/federation/:name', key: 'members' },
    { url: '/system/replicas/:name', key: 'replicas' },
  ] as const;
  for (const { url, key } of spellings) {
    const view = Type.Object({
      topology: Type.String(),
      [key]: Type.Union([Type.Array(Type.Unknown()), Type.Null()]),
      conditions: Conditions,
      warnings: Warnings,
    });
    const read = { summary: 'Topology and members', tags, params: Name, querystring: Include, response: { 200: view } };
    app.get(url, { schema: read }, async (request) => {
      const { members, ...shown } = await viewFor(request, deps);
      return { ...shown, [key]: members };
    });
    for (const [method, summary] of VERBS) {
      const schema = {
        summary,
        tags,
        params: Name,
        ...(method === 'DELETE' && { querystring: Force }),
        response: { 200: view },
      };
      app.route({
        method,
        url,
        schema,
        async handler(request) {
          const { members, ...shown } = await change(method, request, deps);
          return { ...shown, [key]: members };
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

type Method = (typeof VERBS)[number][0];

const who = async (request: FastifyRequest, { authenticator, federations }: FederationDeps) =>
  servicePrincipal(request, authenticator, await federations.workers.catalog.services.get(nameOf(request)));

async function viewFor(request: FastifyRequest, deps: FederationDeps) {
  const { coordination, workers } = deps.federations;
  const principal = await who(request, deps);
  const { service } = await findService(principal, 'read-federation', nameOf(request), workers.catalog);
  const { include } = request.query as { include?: string };
  if (include !== 'status' || service.federation?.role !== 'coordinator') return membersView(service.definition);
  const entry = await new Ledgers(coordination).read(service.federation.uid);
  const conditions = await coordination.conditions?.(service);
  return { ...membersView(service.definition, entry?.ledger), ...(conditions && { conditions }) };
}

async function change(method: Method, request: FastifyRequest, deps: FederationDeps) {
  const { federations } = deps;
  const principal = await who(request, deps);
  // What any change needs at least; `changeMembers` asks for more where it takes more.
  const record = await findService(principal, 'add-member', nameOf(request), federations.workers.catalog);
  const body = bodyOf(request, method);
  if (isWorker(record)) {
    const passed = { method, ...(body !== undefined && { body }) };
    const answer = await passOn(record, { principal, credential: credentialOf(request) }, passed, federations);
    const members = answer.members.length > 0 ? answer.members : null;
    const warnings = answer.pending.map((member) => `${member}: does not have it yet: the coordinator says why`);
    return { topology: answer.topology, members, ...(warnings.length > 0 && { warnings }) };
  }
  const changed = await changeAs(principal, request, { method, body }, deps);
  const warnings = changed.pending.map(({ member, reason }) => `${member}: ${reason}`);
  return { ...shown(changed.record.service), ...(warnings.length > 0 && { warnings }) };
}

const shown = ({ definition }: Service) => membersView(definition);

function changeAs(
  principal: Principal,
  request: FastifyRequest,
  { method, body }: { readonly method: Method; readonly body?: unknown },
  { federations: { coordination } }: FederationDeps,
): Promise<Changed> {
  const credential = credentialOf(request);
  const intention = readIntention(method, body);
  const caller = principal.kind === 'service-token' ? { principal } : { principal, ...(credential && { credential }) };
  return changeMembers(caller, nameOf(request), intention, coordination);
}

/** A change that was sent to a worker: signed by it, and asked for by somebody whom this manager knows itself. */
function passedChangesRoute(app: FastifyInstance, deps: FederationDeps): void {
  const { coordination, workers } = deps.federations;
  const nonces = new Nonces();
  const schema = {
    summary: 'A change of members that was sent to a worker, from its manager',
    tags,
    params: Name,
    body: Type.Object({
      method: Type.String({ description: 'POST, PUT or DELETE' }),
      body: Type.Optional(Type.Unknown()),
    }),
    response: {
      200: Type.Object({
        topology: Type.String(),
        members: Type.Array(Type.Unknown()),
        pending: Type.Array(Type.String({ description: 'members that do not have it yet' })),
      }),
    },
  };
  app.post('/system/federation/:name/changes', { schema }, async (request) => {
    const signed = { ...signedPartsOf(request), service: nameOf(request), once: nonces };
    const { record } = await authenticateWorker(signed, coordination);
    const principal = await serviceBearer(request, deps.authenticator, record);
    await findService(principal, 'add-member', nameOf(request), workers.catalog);
    const passed = valueOf(readPassedChange(jsonOf(request)));
    return passedAnswer(await changeAs(principal, request, passed, deps));
  });
}

/** DELETE may come without a body. */
function bodyOf(request: FastifyRequest, method: Method): unknown {
  const isEmpty = !(request.body instanceof Uint8Array) || request.body.length === 0;
  const body = method === 'DELETE' && isEmpty ? undefined : jsonOf(request);
  const { force } = request.query as { force?: string };
  if (method !== 'DELETE' || force !== 'true') return body;
  return { ...(Array.isArray(body) ? { members: body } : (body ?? {})), force: true };
}
