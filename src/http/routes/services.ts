import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import {
  type Caller,
  type ChangedFederation,
  changeFederation,
  createFederation,
  type Federations,
  isWorker,
  memberName,
  notifyDeparture,
  removeFederation,
  removeOwnWorker,
  takeOverWorker,
} from '../../federation/index.ts';
import { type Admin, type Authenticator, may, type User } from '../../identity/index.ts';
import type { Version } from '../../lib/version.ts';
import { readDefinition, ServiceSchema } from '../../model/service/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import {
  createService,
  findRemovable,
  findService,
  listServices,
  removeService,
  updateService,
  withoutClusterAccounts,
} from '../../services/index.ts';
import { callerCredential, systemPrincipal } from '../authentication.ts';
import { beforeBody, readJsonBody } from '../body.ts';
import { JSON_TYPE, TEXT_TYPE } from '../go-json.ts';
import { Name, nameParam, readIfMatch, toEtag } from '../params.ts';
import { type DeploymentOf, NO_DEPLOYMENT, type ServiceView } from '../service-view.ts';

export interface ServicesDeps {
  readonly authenticator: Authenticator;
  readonly federations: Federations;
  readonly view: ServiceView;
  readonly deploymentOf?: DeploymentOf | undefined;
}

const tags = ['services'];
const Include = Type.Object({ include: Type.Optional(Type.String({ description: '`deployment` adds its state' })) });

export function servicesRoutes(app: FastifyInstance, deps: ServicesDeps): void {
  const { authenticator, federations, view, deploymentOf } = deps;
  const { catalog } = federations.workers;
  const who = (request: FastifyRequest) => systemPrincipal(request, authenticator);
  const deploymentFor = (request: FastifyRequest, { service }: ServiceRecord) =>
    includesDeployment(request) ? (deploymentOf?.(service) ?? NO_DEPLOYMENT) : undefined;
  const callerOf = async (request: FastifyRequest) => {
    const [principal, credential] = [await who(request), callerCredential(request)];
    return { principal, ...(credential && { credential }) };
  };

  const create = { summary: 'Create a service', tags, body: ServiceSchema, response: { 201: Type.Null() } };
  app.post('/system/services', { schema: create, ...beforeBody(who) }, async (request, reply) => {
    const created = await createPlainOrFederated(await callerOf(request), readJsonBody(request), federations);
    return answerChanged(reply.code(201), created);
  });

  const update = {
    summary: 'Replace the definition of a service',
    tags,
    body: ServiceSchema,
    response: { 200: Type.String(), 204: Type.Null() },
  };
  app.put('/system/services', { schema: update, ...beforeBody(who) }, async (request, reply) => {
    const caller = await callerOf(request);
    const changed = await updatePlainOrFederated(caller, readJsonBody(request), readIfMatch(request), federations);
    return answerChanged(reply.code(changed.pending.length > 0 ? 200 : 204), changed);
  });

  const list = {
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

  const read = { summary: 'One service', tags, params: Name, querystring: Include, response: { 200: ServiceSchema } };
  app.get('/system/services/:name', { schema: read }, async (request, reply) => {
    const principal = await who(request);
    const record = await findService(principal, 'read', nameParam(request), catalog);
    return reply
      .header('etag', toEtag(record.version))
      .type(JSON_TYPE)
      .send(view.one(record, seesToken(principal, record), deploymentFor(request, record)));
  });

  const remove = {
    summary: 'Delete a service',
    tags,
    params: Name,
    querystring: Type.Object({
      namespace: Type.Optional(Type.String({ description: 'where it must be; for the administrator' })),
      cascade: Type.Optional(Type.String({ description: '`false` leaves the members as services of their own' })),
    }),
    response: { 204: Type.Null() },
  };
  app.delete('/system/services/:name', { schema: remove, ...beforeBody(who) }, async (request, reply) => {
    const caller = await callerOf(request);
    const { namespace, cascade } = request.query as { namespace?: string; cascade?: string };
    const options = { namespace, cascade: cascade !== 'false' };
    await removePlainOrFederated(caller, nameParam(request), options, federations);
    return reply.code(204).send();
  });
}

/** A definition with members is deployed as a federation; any other creates a plain service. */
async function createPlainOrFederated(
  caller: Caller,
  sent: unknown,
  { coordination, workers }: Federations,
): Promise<ChangedFederation> {
  const body = withoutClusterAccounts(caller.principal, sent);
  if (namesFederation(body) && hasMembers(body)) return createFederation(caller, body, coordination);
  return { record: await createService(caller.principal, body, workers.catalog), pending: [] };
}

/** Most definitions have no such key, and are not parsed twice. */
const namesFederation = (body: unknown) =>
  typeof body === 'object' && body !== null && Object.keys(body).some((key) => /^federation$/i.test(key));

const hasMembers = (body: unknown) => (readDefinition(body).definition.federation?.members ?? []).length > 0;

/**
 * A service that is federated, or becomes so, is changed at all its members; any other here alone. A worker is changed by its
 * coordinator (F45), unless the coordinator has been silent for so long that the owner may take the worker over.
 */
export async function updatePlainOrFederated(
  caller: Caller,
  sent: unknown,
  ifMatch: Version | undefined,
  federations: Federations,
): Promise<ChangedFederation> {
  const { coordination, workers } = federations;
  const body = withoutClusterAccounts(caller.principal, sent);
  const { name, federation } = readDefinition(body).definition;
  const record = await findService(caller.principal, 'update', name, workers.catalog);
  if (isWorker(record)) {
    await takeOverWorker(caller.principal, record, ifMatch, workers);
    return updatePlainOrFederated(caller, body, undefined, federations);
  }
  if (record.service.federation || (federation?.members ?? []).length > 0) {
    return changeFederation(caller, body, ifMatch, coordination);
  }
  return { record: await updateService(caller.principal, body, ifMatch, workers.catalog), pending: [] };
}

/** A coordinator is removed with its members, a worker here alone, after its coordinator has been notified. */
async function removePlainOrFederated(
  caller: Caller,
  name: string,
  { namespace, cascade }: { readonly namespace: string | undefined; readonly cascade: boolean },
  federations: Federations,
): Promise<void> {
  const { coordination, workers } = federations;
  const { principal } = caller;
  const record = await findRemovable(principal, name, namespace, workers.catalog);
  if (record.service.federation?.role === 'coordinator') {
    await removeFederation(record, { cascade, caller }, coordination);
  } else if (isWorker(record)) {
    await removeOwnWorker(principal, name, namespace, workers, (worker) => notifyDeparture(worker, federations));
  } else await removeService(principal, name, namespace, workers.catalog);
}

/** Where members are missing, what became of each is said, one per line; otherwise the answer is empty, as clients expect. */
function answerChanged(reply: FastifyReply, { record, pending }: ChangedFederation): FastifyReply {
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
