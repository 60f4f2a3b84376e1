import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import {
  authenticateWorker,
  changeMembers,
  type Federations,
  parseMembersChange,
  precheckWorker,
  recordDeparture,
  toForwardedAnswer,
} from '../../federation/index.ts';
import type { Authenticator } from '../../identity/index.ts';
import { readPassedChange } from '../../peers/index.ts';
import { findService } from '../../services/index.ts';
import { errors, FEDERATION_ERRORS, noBody, SIGNATURE_ERRORS } from '../answers.ts';
import { announcedParts, federationCaller, readMemberClaim, serviceBearer, signedParts } from '../authentication.ts';
import { beforeBody, readJsonBody, requireValid, SMALL_BODY } from '../body.ts';
import { Name, nameParam } from '../params.ts';
import { NEVER_SHED } from '../shedding.ts';

interface WorkerRequestDeps {
  readonly authenticator: Authenticator;
  readonly federations: Federations;
}

const tags = ['federation'];

/** Requests of the managers of workers to their coordinator, signed with the member key. */
export function workerRequestRoutes(app: FastifyInstance, deps: WorkerRequestDeps): void {
  forwardedChangesRoute(app, deps);
  departuresRoute(app, deps);
}

/** A user sent the change to a worker. The worker's manager signs it, and this manager authenticates the user. */
function forwardedChangesRoute(app: FastifyInstance, deps: WorkerRequestDeps): void {
  const { coordination, workers } = deps.federations;
  const schema = {
    operationId: 'forwardChange',
    summary: 'A change of members that was sent to a worker, from its manager',
    tags,
    params: Name,
    security: [{ member: [] }],
    body: Type.Object(
      { method: Type.Enum(['POST', 'PUT', 'DELETE']), body: Type.Optional(Type.Unknown()) },
      { examples: [{ method: 'DELETE', body: { members: [{ cluster_id: 'b', service_name: 'grayify-b' }] } }] },
    ),
    response: {
      200: Type.Object({
        topology: Type.String(),
        members: Type.Array(Type.Unknown()),
        pending: Type.Array(Type.String({ description: 'members that do not have the change yet' })),
        absent: Type.Optional(Type.Array(Type.String({ description: 'names in the request that are not members' }))),
      }),
      ...SIGNATURE_ERRORS,
      ...FEDERATION_ERRORS,
    },
  };
  const known = async (request: FastifyRequest) => {
    await precheckWorker({ ...announcedParts(request), service: nameParam(request) }, coordination);
    await serviceBearer(request, deps.authenticator, await workers.catalog.services.get(nameParam(request)));
  };
  app.post('/system/federation/:name/changes', { ...NEVER_SHED, schema, ...beforeBody(known) }, async (request) => {
    const signed = { ...signedParts(request), service: nameParam(request), once: true };
    const { record } = await authenticateWorker(signed, coordination);
    const principal = await serviceBearer(request, deps.authenticator, record);
    await findService(principal, 'add-member', nameParam(request), workers.catalog);
    const passed = requireValid(readPassedChange(readJsonBody(request)));
    const intention = parseMembersChange(passed.method, passed.body);
    const caller = federationCaller(principal, request);
    return toForwardedAnswer(await changeMembers(caller, nameParam(request), intention, coordination));
  });
}

/** The owner of a worker removes it: its manager reports it here first. Repeating the report is a no-op. */
function departuresRoute(app: FastifyInstance, { federations: { coordination } }: WorkerRequestDeps): void {
  const schema = {
    operationId: 'reportDeparture',
    summary: 'The owner of a worker ends it on its own cluster, from the manager there',
    tags,
    params: Name,
    security: [{ member: [] }],
    response: { 204: noBody('Recorded'), ...SIGNATURE_ERRORS, ...errors(403, 409, 410) },
  };
  const known = (request: FastifyRequest) =>
    precheckWorker({ ...announcedParts(request), service: nameParam(request) }, coordination);
  const options = { ...NEVER_SHED, schema, bodyLimit: SMALL_BODY, ...beforeBody(known) };
  app.post('/system/federation/:name/departures', options, async (request, reply) => {
    const signed = { ...signedParts(request), service: nameParam(request) };
    const { ledger, member } = await authenticateWorker(signed, coordination);
    request.actor = `member:${readMemberClaim(request).member}`;
    await recordDeparture(ledger.uid, member.keyId, coordination);
    return reply.code(204).send();
  });
}
