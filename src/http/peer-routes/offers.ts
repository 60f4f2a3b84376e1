import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type AuthenticatedCoordinator, findClaimedWorker } from '../../delegation/index.ts';
import { authenticateCoordinator, precheckCoordinator } from '../../federation/index.ts';
import { eventTooLarge } from '../../jobs/index.ts';
import { DelegationError, longestBody, parseTrace, readOffer, writeRoom, writeStatus } from '../../peers/index.ts';
import { beforeBody, hasBody, readJsonBody, requireValid, SMALL_BODY } from '../body.ts';
import { TEXT_TYPE } from '../go-json.ts';
import { flushHeadersFirst } from '../open-answers.ts';
import { jobParams, nameParam, readFlag } from '../params.ts';
import { SIGNED } from '../routing.ts';
import { announcedParts, headerText, readMemberClaim, signedParts } from '../signed.ts';
import type { DelegationDeps } from './delegation.ts';

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
