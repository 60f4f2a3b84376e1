import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { DelegationServer } from '../../delegation/index.ts';
import type { AuthenticatedWorker } from '../../federation/index.ts';
import { authenticateWorker, type Federations, precheckWorker } from '../../federation/index.ts';
import { eventTooLarge } from '../../jobs/index.ts';
import { longestBody, readAttempt, readOpened, readReport, writePermit } from '../../peers/index.ts';
import { beforeBody, readJsonBody, requireValid, SMALL_BODY } from '../body.ts';
import type { OpenResponses } from '../open-answers.ts';
import { jobParams, nameParam } from '../params.ts';
import { routeSigned, SIGNED } from '../routing.ts';
import { NEVER_SHED } from '../shedding.ts';
import { announcedParts, readMemberClaim, signedParts } from '../signed.ts';
import { offerRoutes } from './offers.ts';

export interface DelegationDeps {
  readonly delegation: DelegationServer;
  readonly federations: Federations;
  readonly maxEventBytes: number;
  readonly open: OpenResponses;
}

/** What managers of other clusters say about jobs (docs/peer-protocol.md#jobs). The API pages do not list it. */
export function delegationRoutes(app: FastifyInstance, deps: DelegationDeps): void {
  routeSigned(app);
  offerRoutes(app, deps);
  originRoutes(app, deps);
}

/** The side of the origin: members that run its jobs ask for leave, say how it goes, and bring what entered with them. */
function originRoutes(app: FastifyInstance, { delegation, federations, maxEventBytes }: DelegationDeps): void {
  const { coordination } = federations;
  const hidden = { hide: true };

  const member = async (request: FastifyRequest, service: string): Promise<AuthenticatedWorker> => {
    const from = await authenticateWorker({ ...signedParts(request), service }, coordination);
    request.who = `member ${readMemberClaim(request).member}`;
    request.actor = `member:${readMemberClaim(request).member}`;
    return from;
  };

  app.get('/system/config', { ...SIGNED, schema: hidden }, async (request, reply) => {
    const attempt = requireValid(readAttempt(request.query));
    const from = await member(request, attempt.job.service);
    reply.header('cache-control', 'no-store');
    return writePermit(await delegation.permit(attempt, from));
  });

  const known = (request: FastifyRequest) =>
    precheckWorker({ ...announcedParts(request), service: nameParam(request) }, coordination);

  const report = '/system/federation/:name/jobs/:id/attempts/:epoch';
  const reports = {
    ...NEVER_SHED,
    errorHandler: SIGNED.errorHandler,
    schema: hidden,
    bodyLimit: SMALL_BODY,
    ...beforeBody(known),
  };
  app.post(report, reports, async (request, reply) => {
    const { name, id } = jobParams(request);
    const from = await member(request, name);
    const { epoch } = request.params as { epoch: string };
    const attempt = requireValid(readAttempt({ job: `${name}/${id}`, epoch }));
    await delegation.report(attempt, requireValid(readReport(readJsonBody(request))), from);
    return reply.code(204).send();
  });

  const enters = {
    ...NEVER_SHED,
    errorHandler: SIGNED.errorHandler,
    schema: hidden,
    bodyLimit: longestBody(maxEventBytes),
    ...beforeBody(known),
  };
  app.post('/system/federation/:name/jobs', enters, async (request, reply) => {
    const service = nameParam(request);
    const from = await member(request, service);
    const { id, ...opened } = requireValid(readOpened(readJsonBody(request)));
    if (opened.event.length > maxEventBytes) throw eventTooLarge(maxEventBytes);
    await delegation.open({ job: { service, id }, ...opened }, from);
    return reply.code(201).header('location', `/system/jobs/${service}/${id}`).send();
  });
}
