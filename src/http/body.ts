import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Read } from '../lib/fields.ts';
import { parseJson } from '../lib/json.ts';
import { HttpError } from './errors.ts';

/** Accepts every body as bytes, with any Content-Type or none (docs/go-manager.md#http). */
export function acceptAnyBody(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  // Fastify rejects an invalid Content-Type; the routes do not use it.
  app.addHook('onRequest', async ({ headers }) => {
    if (headers['content-type'] !== undefined) headers['content-type'] = 'application/octet-stream';
  });
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
}

/**
 * How long the rest of a body is read and discarded after its request was answered. Shorter: a client that is still sending
 * gets a closed connection and may not see the answer. Longer: a rejected client keeps its connection for longer.
 */
const DISCARD_MS = 5_000;

/**
 * Reads a body only after its route has authenticated the caller (`onRequest`). Until then `Expect: 100-continue` is not
 * answered. A body that is not read is discarded, and the connection is closed if it does not arrive soon.
 */
export function deferBodies(app: FastifyInstance): void {
  const expecting = new WeakSet<IncomingMessage>();
  app.server.on('checkContinue', (request, response) => {
    expecting.add(request);
    app.routing(request, response);
  });
  app.addHook('preParsing', (request, reply, payload, done) => {
    if (expecting.has(request.raw)) reply.raw.writeContinue();
    done(null, payload);
  });
  app.addHook('onResponse', async ({ raw }) => {
    if (raw.complete) return;
    setTimeout(() => {
      if (!raw.complete) raw.socket.destroy();
    }, DISCARD_MS).unref();
  });
}

/** Body limit of routes for other managers that need no body, or one with a few fields. */
export const SMALL_BODY = 64 * 1024;

/** Route option: authenticates before the body is read, so that unauthenticated clients cannot fill the memory. */
export const beforeBody = (authenticate: (request: FastifyRequest) => Promise<unknown>) => ({
  onRequest: async (request: FastifyRequest): Promise<void> => {
    await authenticate(request);
  },
});

/** Whether the request has a body. */
export function hasBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** Parses the body as JSON; an absent body counts as empty. */
export function readJsonBody(request: FastifyRequest): unknown {
  return parseJson(request.body instanceof Uint8Array ? request.body : new Uint8Array());
}

/** Returns the parsed value, or throws `bad-request` with all problems. */
export function requireValid<T>(read: Read<T>): T {
  if ('value' in read) return read.value;
  throw new HttpError('bad-request', read.problems.join('\n'));
}
