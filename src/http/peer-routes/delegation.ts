import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type AuthenticatedCoordinator, type DelegationServer, findClaimedWorker } from '../../delegation/index.ts';
import {
  type AuthenticatedWorker,
  authenticateCoordinator,
  authenticateWorker,
  type Federations,
  precheckCoordinator,
  precheckWorker,
} from '../../federation/index.ts';
import { eventTooLarge } from '../../jobs/index.ts';
import {
  DelegationError,
  longestBody,
  parseTrace,
  readAttempt,
  readOffer,
  readOpened,
  readReport,
  writePermit,
  writeRoom,
  writeStatus,
} from '../../peers/index.ts';
import { announcedParts, headerText, readMemberClaim, signedParts } from '../authentication.ts';
import { beforeBody, hasBody, readJsonBody, requireValid, SMALL_BODY } from '../body.ts';
import { TEXT_TYPE } from '../go-json.ts';
import { flushHeadersFirst, type OpenResponses } from '../open-answers.ts';
import { jobParams, nameParam, readFlag } from '../params.ts';
import { routeSigned, SIGNED } from '../routing.ts';
import { NEVER_SHED } from '../shedding.ts';

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

/** The side of the target: the coordinator of a worker offers jobs, looks at them, and ends them. */
export function offerRoutes(app: FastifyInstance, deps: DelegationDeps): void {
  const { delegation, maxEventBytes, open } = deps;
  const { workers } = deps.federations;
  const route = { ...SIGNED, schema: { hide: true } };

  const coordinator = async (request: FastifyRequest, service: string): Promise<AuthenticatedCoordinator> => {
    await authenticateCoordinator({ ...signedParts(request), service }, workers);
    const { uid, member } = readMemberClaim(request);
    request.who = `coordinator of ${member}`;
    request.actor = `coordinator:${member}`;
    return findClaimedWorker({ uid, member }, service, workers.catalog);
  };

  const known = async (request: FastifyRequest, service: string) => {
    if (hasBody(request)) await precheckCoordinator({ ...announcedParts(request), service }, workers);
  };

  const offers = {
    ...route,
    bodyLimit: longestBody(maxEventBytes),
    // An earlier version sent a token of the owner as well. It is not read, so that such an offer is still accepted.
    ...beforeBody(async (request) => {
      const { uid, member } = readMemberClaim(request);
      await findClaimedWorker({ uid, member }, nameParam(request), workers.catalog);
      await known(request, nameParam(request));
    }),
  };
  app.post('/job/:name', offers, async (request, reply) => {
    const service = nameParam(request);
    const from = await coordinator(request, service);
    const read = requireValid(readOffer(readJsonBody(request)));
    if (read.event.length > maxEventBytes) throw eventTooLarge(maxEventBytes);
    const offer = { ...read, service, ...parseTrace(headerText(request, 'traceparent')) };
    try {
      const { attempt } = await delegation.offer(offer, from);
      reply.code(201).header('location', `/system/jobs/${service}/${attempt}`);
      return { attempt, ...writeRoom(await delegation.status(from)) };
    } catch (error) {
      if (!(error instanceof DelegationError && error.code === 'offer-no-room')) throw error;
      // The origin learns from the answer how much room there is, and need not ask.
      return reply.code(429).send({ code: error.code, ...writeRoom(await delegation.status(from).catch(nothing)) });
    }
  });

  const stops = {
    ...route,
    bodyLimit: SMALL_BODY,
    ...beforeBody((request) => known(request, jobParams(request).name)),
  };
  app.delete('/system/jobs/:name/:id', stops, async (request, reply) => {
    const { name: service, id } = jobParams(request);
    const from = await coordinator(request, service);
    await delegation.stop({ service, id }, from);
    return reply.code(204).send();
  });

  app.get('/system/logs/:name/:id', route, async (request, reply) => {
    const { name: service, id } = jobParams(request);
    const from = await coordinator(request, service);
    const follow = readFlag(request, 'follow');
    const options = {
      timestamps: readFlag(request, 'timestamps'),
      follow,
      ...(readFlag(request, 'answer') && { answer: true as const }),
      signal: open.until(reply),
    };
    const log = await delegation.logs({ service, id }, options, from);
    reply.type(TEXT_TYPE).header('x-content-type-options', 'nosniff');
    if (!follow) return reply.send(Readable.from(log, { objectMode: false }));
    return reply
      .header('connection', 'close')
      .send(Readable.from(flushHeadersFirst(reply, log), { objectMode: false }));
  });

  app.get('/system/status', route, async (request) => {
    const [, service = ''] = readMemberClaim(request).member.split('/');
    return writeStatus(await delegation.status(await coordinator(request, service)));
  });
}

const nothing = () => undefined;
