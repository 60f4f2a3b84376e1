import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { type Federations, federatedServices, memberName } from '../../federation/index.ts';
import { type Admin, type Authenticator, may, type User } from '../../identity/index.ts';
import { ServiceSchema } from '../../model/service/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import {
  type ChangedService,
  createPlainOrFederated,
  findService,
  type LeftBehind,
  listServices,
  planCreate,
  planUpdate,
  removePlainOrFederated,
  updatePlainOrFederated,
} from '../../services/index.ts';
import { ETAG, errors, FEDERATION_ERRORS, header, noBody, plainText, withMedia } from '../answers.ts';
import { callerCredential, systemPrincipal } from '../authentication.ts';
import { beforeBody, readJsonBody } from '../body.ts';
import { JSON_TYPE, TEXT_TYPE } from '../go-json.ts';
import { Flag, IfMatch, Name, nameParam, readFlag, readIfMatch, toEtag } from '../params.ts';
import { type DeploymentOf, NO_DEPLOYMENT, type ServiceView } from '../service-view.ts';

export interface ServicesDeps {
  readonly authenticator: Authenticator;
  readonly federations: Federations;
  readonly view: ServiceView;
  readonly deploymentOf?: DeploymentOf | undefined;
}

const tags = ['services'];
const Include = Type.Object({
  include: Type.Optional(Type.Enum(['deployment'], { description: '`deployment` adds its state' })),
});
const CHANGE_ERRORS = { ...FEDERATION_ERRORS, ...errors(413) };

const DryRun = Type.Object({
  dry_run: Flag('checks everything, changes nothing, and answers what the request would do'),
});
const PlanSchema = Type.Object(
  {
    name: Type.String(),
    action: Type.Enum(['create', 'update']),
    changes: Type.Array(Type.String(), { description: 'keys of the definition that would change' }),
    buckets: Type.Array(
      Type.Object({
        name: Type.String(),
        action: Type.Enum(['create', 'use', 'keep'], {
          description: '`keep`: no longer used, it becomes a private bucket of its owner',
        }),
      }),
    ),
    members: Type.Array(
      Type.Object({
        member: Type.String(),
        action: Type.Enum(['create', 'adopt', 'update', 'remove']),
        problem: Type.Optional(Type.String({ description: 'why that would not succeed now' })),
      }),
    ),
  },
  { title: 'ServicePlan' },
);

export function servicesRoutes(app: FastifyInstance, deps: ServicesDeps): void {
  const { authenticator, federations, view, deploymentOf } = deps;
  const { catalog } = federations.workers;
  const federated = federatedServices(federations);
  const who = (request: FastifyRequest) => systemPrincipal(request, authenticator);
  const deploymentFor = (request: FastifyRequest, { service }: ServiceRecord) =>
    includesDeployment(request) ? (deploymentOf?.(service) ?? NO_DEPLOYMENT) : undefined;
  const callerOf = async (request: FastifyRequest) => {
    const [principal, credential] = [await who(request), callerCredential(request)];
    return { principal, ...(credential && { credential }) };
  };

  const create = {
    operationId: 'createService',
    summary: 'Create a service',
    description: 'With `federation.members` it is created at the members too: at all of them, or at none.',
    tags,
    querystring: DryRun,
    body: ServiceSchema,
    response: {
      200: withMedia('What the request would do, with `dry_run`', { 'application/json': PlanSchema }),
      201: plainText('Created; with `best-effort` a line for each member', ETAG),
      ...CHANGE_ERRORS,
    },
  };
  app.post('/system/services', { schema: create, ...beforeBody(who) }, async (request, reply) => {
    const caller = await callerOf(request);
    if (readFlag(request, 'dry_run')) {
      return reply.code(200).send(await planCreate(caller, readJsonBody(request), catalog, federated));
    }
    const created = await createPlainOrFederated(caller, readJsonBody(request), catalog, federated);
    return answerChanged(reply.code(201), created);
  });

  const update = {
    operationId: 'updateService',
    summary: 'Replace the definition of a service',
    tags,
    headers: IfMatch,
    querystring: DryRun,
    body: ServiceSchema,
    response: {
      200: withMedia(
        'What the request would do, with `dry_run`; otherwise: replaced, some members get it later, a line for each',
        { 'application/json': PlanSchema, 'text/plain': Type.String() },
        ETAG,
      ),
      204: noBody('Replaced', ETAG),
      ...CHANGE_ERRORS,
      404: noBody('There is no such service, or the caller may not see it'),
      ...errors(412),
    },
  };
  app.put('/system/services', { schema: update, ...beforeBody(who) }, async (request, reply) => {
    const caller = await callerOf(request);
    if (readFlag(request, 'dry_run')) {
      const plan = await planUpdate(caller, readJsonBody(request), readIfMatch(request), catalog, federated);
      return reply.code(200).send(plan);
    }
    const changed = await updatePlainOrFederated(
      caller,
      readJsonBody(request),
      readIfMatch(request),
      catalog,
      federated,
    );
    return answerChanged(reply.code(changed.pending.length > 0 ? 200 : 204), changed);
  });

  const list = {
    operationId: 'listServices',
    summary: 'Services that the caller sees',
    tags,
    querystring: Include,
    response: { 200: Type.Array(ServiceSchema) },
  };
  app.get('/system/services', { schema: list }, async (request, reply) => {
    const principal = await who(request);
    const records = await listServices(principal, catalog);
    const shown = records.map((record) =>
      view.one(record, seesToken(principal, record), deploymentFor(request, record)),
    );
    return reply.type(JSON_TYPE).send(`[${shown.join(',')}]`);
  });

  const read = {
    operationId: 'getService',
    summary: 'One service',
    tags,
    params: Name,
    querystring: Include,
    response: { 200: withMedia('The service', { 'application/json': ServiceSchema }, ETAG) },
  };
  app.get('/system/services/:name', { schema: read }, async (request, reply) => {
    const principal = await who(request);
    const record = await findService(principal, 'read', nameParam(request), catalog);
    return reply
      .header('etag', toEtag(record.version))
      .type(JSON_TYPE)
      .send(view.one(record, seesToken(principal, record), deploymentFor(request, record)));
  });

  const remove = {
    operationId: 'deleteService',
    summary: 'Delete a service',
    tags,
    params: Name,
    querystring: Type.Object({
      namespace: Type.Optional(Type.String({ description: 'where it must be; for the administrator' })),
      cascade: Flag('`false` leaves the members as services of their own'),
    }),
    response: {
      204: noBody('Deleted', { [WARNING_HEADER]: header('workers at Go managers that still exist, and why') }),
      ...FEDERATION_ERRORS,
    },
  };
  app.delete('/system/services/:name', { schema: remove, ...beforeBody(who) }, async (request, reply) => {
    const caller = await callerOf(request);
    const { namespace, cascade } = request.query as { namespace?: string; cascade?: string };
    const options = { namespace, cascade: cascade !== 'false' };
    const left = await removePlainOrFederated(caller, nameParam(request), options, catalog, federated);
    if (left.length > 0) {
      request.log.warn({ service: nameParam(request), left }, 'a delete left workers at Go managers');
      reply.header(WARNING_HEADER, leftWarning(left));
    }
    return reply.code(204).send();
  });
}

/** The body of a delete stays empty, as clients expect. */
const WARNING_HEADER = 'x-oscar-warning';

function leftWarning(left: readonly LeftBehind[]): string {
  const members = left.map(({ member, reason }) => `${member} still exists: ${reason}`).join('; ');
  const text = `${members}. The manager tries again until the credential of this request expires; check and delete it there`;
  return text.replace(/[^\x20-\x7e]/g, '?');
}

/** If members are pending, the answer has the state of each member, one per line. Otherwise it is empty, as clients expect. */
function answerChanged(reply: FastifyReply, { record, pending }: ChangedService): FastifyReply {
  reply.header('etag', toEtag(record.version));
  if (pending.length === 0) return reply.send();
  const reasons = new Map(pending.map(({ member, reason }) => [member, reason]));
  const lines = (record.service.definition.federation?.members ?? []).map(memberName).map((member) => {
    const reason = reasons.get(member);
    return `  ${member}: ${reason === undefined ? 'ready' : `pending: ${reason}`}`;
  });
  return reply
    .type(TEXT_TYPE)
    .send(['not all members have it yet; they get it as soon as they can:', ...lines].join('\n'));
}

function seesToken(principal: Admin | User, record: { service: Parameters<typeof may>[2] }): boolean {
  return may(principal, 'see-token', record.service) === 'yes';
}

function includesDeployment(request: FastifyRequest): boolean {
  const { include = '' } = request.query as { include?: string | string[] };
  return [include].flat().some((list) => list.split(',').some((item) => item.trim().toLowerCase() === 'deployment'));
}
