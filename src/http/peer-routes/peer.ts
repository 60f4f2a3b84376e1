import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import {
  adoptWorker,
  authenticateCoordinator,
  createWorker,
  hasWorkerOf,
  inspectWorker,
  precheckCoordinator,
  probeWorker,
  rekeyWorker,
  releaseWorker,
  updateWorker,
  type Workers,
} from '../../federation/index.ts';
import type { Authenticator } from '../../identity/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import {
  ANOTHER_KEY,
  FEDERATION_HEADER,
  MEMBER_HEADER,
  readBroughtKey,
  readChange,
  readOrder,
  WORKER_HEADER,
  type WorkerOrder,
  writeState,
} from '../../peers/index.ts';
import { ServicesError } from '../../services/index.ts';
import { errors, noBody, SIGNATURE_ERRORS } from '../answers.ts';
import {
  announcedParts,
  headerText,
  readMemberClaim,
  signedBytes,
  signedParts,
  systemPrincipal,
} from '../authentication.ts';
import { beforeBody, hasBody, readJsonBody, requireValid, SMALL_BODY } from '../body.ts';
import { HttpError } from '../errors.ts';
import { Name, nameParam } from '../params.ts';
import { FROM_COORDINATOR, routeCoordinators } from '../routing.ts';
import { NEVER_SHED } from '../shedding.ts';

export interface PeerDeps {
  readonly authenticator: Authenticator;
  readonly workers: Workers;
}

const tags = ['federation'];
const View = Type.Object({
  instance: Type.String(),
  found: Type.String({ description: 'nothing, own, member, taken; or worker, to its coordinator' }),
  version: Type.Optional(Type.String()),
  uid: Type.Optional(Type.String()),
  revision: Type.Optional(Type.Integer()),
  digest: Type.Optional(Type.String()),
});
const Announced = Type.Object({
  key: Type.Optional(
    Type.String({ description: 'the id of the key with which the worker is created next', pattern: '^[0-9a-f]{64}$' }),
  ),
});
const How = Type.Object({
  how: Type.Optional(Type.Enum(['undo', 'detach'], { description: '`undo` if left out' })),
});

/** What managers of other clusters ask about one service (docs/peer-protocol.md#calls). */
export function peerRoutes(app: FastifyInstance, deps: PeerDeps): void {
  workerOrderRoutes(app, deps);
  const { authenticator, workers } = deps;
  const url = '/system/services/:name/federation';

  const probe = {
    operationId: 'probeWorker',
    summary: 'What a federation finds under this name',
    tags,
    params: Name,
    querystring: Announced,
    response: { 200: View, ...SIGNATURE_ERRORS, ...errors(403, 409, 410) },
  };
  app.get(url, { ...NEVER_SHED, schema: probe }, async (request) => {
    const name = nameParam(request);
    if (request.headers[MEMBER_HEADER] === undefined) {
      const principal = await systemPrincipal(request, authenticator);
      return probeWorker(principal, name, workers, announcedKey(request));
    }
    const state = await inspectWorker(name, await memberOf(request, workers), workers);
    if (!state) throw noWorker(name);
    return writeState(state);
  });

  const change = {
    operationId: 'changeWorker',
    summary: 'Change a worker',
    tags,
    params: Name,
    security: [{ member: [] }],
    body: Type.Unsafe({
      type: 'object',
      description: 'the change that the coordinator signed (docs/peer-protocol.md#calls)',
      examples: [{ revision: 2, definition: '{"name":"grayify-b","image":"busybox","script":"true"}' }],
    }),
    response: { 204: noBody('Changed'), ...SIGNATURE_ERRORS, ...errors(403, 409, 410, 412, 424) },
  };
  app.put(
    url,
    { ...NEVER_SHED, schema: change, ...beforeBody((request) => knownMember(request, workers)) },
    async (request, reply) => {
      const keyId = await memberOf(request, workers);
      await updateWorker(nameParam(request), requireValid(readChange(readJsonBody(request))), keyId, workers);
      return reply.code(204).send();
    },
  );

  const end = {
    operationId: 'endWorker',
    summary: 'End a worker',
    tags,
    params: Name,
    querystring: How,
    security: [{ member: [] }],
    response: { 204: noBody('Ended'), ...SIGNATURE_ERRORS, ...errors(403, 409, 410) },
  };
  const ending = {
    ...NEVER_SHED,
    schema: end,
    bodyLimit: SMALL_BODY,
    ...beforeBody((request) => knownMember(request, workers)),
  };
  app.delete(url, ending, async (request, reply) => {
    const how = howOf(request);
    const brought = broughtBy(request);
    const name = nameParam(request);
    await releaseWorker(name, how, await memberOf(request, workers, brought), workers);
    if (brought && (await hasWorkerOf(name, brought.uid, workers))) reply.header(WORKER_HEADER, ANOTHER_KEY);
    return reply.code(204).send();
  });
}

/**
 * A coordinator creates, adopts and re-keys its workers under the path where users create and update services. The header
 * `X-Oscar-Federation` alone makes a request one of a coordinator, not the annotations of the definition (F43).
 */
function workerOrderRoutes(app: FastifyInstance, { authenticator, workers }: PeerDeps): void {
  routeCoordinators(app);
  const url = '/system/services';
  const owner = (request: FastifyRequest) => systemPrincipal(request, authenticator);
  const options = { ...FROM_COORDINATOR, schema: { hide: true }, ...beforeBody(owner) };

  app.post(url, options, async (request, reply) => {
    const principal = await owner(request);
    await createWorker(principal, orderIn(request), workers);
    return reply.code(201).send();
  });

  app.put(url, options, async (request, reply) => {
    const principal = await owner(request);
    const order = orderIn(request);
    if (request.headers['if-match']?.trim() !== '*') {
      await adoptWorker(principal, order, versionOf(request), workers);
    } else if (!(await rekeyWorker(principal, order, workers))) throw noWorker(order.name);
    return reply.code(204).send();
  });
}

function orderIn(request: FastifyRequest): WorkerOrder {
  const order = requireValid(readOrder(headerText(request, FEDERATION_HEADER) ?? ''));
  return { ...order, name: order.member.split('/')[1] ?? '', body: new Secret(textOf(request)) };
}

const noWorker = (name: string) => new ServicesError('not-found', `there is no worker "${name}" of this federation`);

/** The id of the key that the request is signed with. */
async function memberOf(
  request: FastifyRequest,
  workers: Workers,
  brought?: Parameters<typeof authenticateCoordinator>[0]['brought'],
): Promise<string> {
  const keyId = await authenticateCoordinator(
    { ...signedParts(request), service: nameParam(request), brought },
    workers,
  );
  request.actor = `coordinator:${readMemberClaim(request).member}`;
  return keyId;
}

/** What can be known before the body is read. */
async function knownMember(request: FastifyRequest, workers: Workers): Promise<void> {
  if (!hasBody(request)) return;
  // A caller that brings the key has not proven anything, so nothing is read from it. A removal needs no body.
  if (request.method === 'DELETE' && broughtBy(request)) throw new HttpError('bad-request', 'a removal has no body');
  await precheckCoordinator({ ...announcedParts(request), service: nameParam(request) }, workers);
}

function broughtBy(request: FastifyRequest) {
  const header = headerText(request, FEDERATION_HEADER);
  return header === undefined ? undefined : requireValid(readBroughtKey(header));
}

const textOf = (request: FastifyRequest) => Buffer.from(signedBytes(request)).toString();

function howOf(request: FastifyRequest): 'undo' | 'detach' {
  const { how = 'undo' } = request.query as { how?: string };
  if (how === 'undo' || how === 'detach') return how;
  throw new HttpError('bad-request', 'how: is not one of undo, detach');
}

/** The id of the key with which the caller may create the worker next. */
function announcedKey(request: FastifyRequest): string | undefined {
  const { key } = request.query as { key?: unknown };
  if (key === undefined) return undefined;
  if (typeof key === 'string' && /^[0-9a-f]{64}$/.test(key)) return key;
  throw new HttpError('bad-request', 'key: is not the id of a key, which is a SHA-256 in hexadecimal');
}

/** A service is adopted in the version that was looked at, or not at all. */
function versionOf(request: FastifyRequest): Version {
  const quoted = /^"([^"]+)"$/.exec(request.headers['if-match']?.trim() ?? '')?.[1];
  if (quoted !== undefined) return quoted as Version;
  throw new HttpError('bad-request', 'If-Match: give the version that the probe showed, in quotation marks');
}
