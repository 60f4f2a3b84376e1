import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Read } from '../lib/fields.ts';
import { parseJson } from '../lib/json.ts';
import { HttpError } from './errors.ts';

/** Takes every body as bytes, whatever its Content-Type says, or if it says nothing (docs/go-manager.md#http). */
export function takeAnyBody(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  // Fastify refuses a Content-Type that is none; nobody here reads it.
  app.addHook('onRequest', async ({ headers }) => {
    if (headers['content-type'] !== undefined) headers['content-type'] = 'application/octet-stream';
  });
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
}

/**
 * How long the rest of a body is thrown away after its request was answered. Shorter: a client that is still sending meets
 * a closed connection and may not see the answer. Longer: whoever was refused keeps the connection, and sends for nothing.
 */
const DISCARD_MS = 5_000;

/**
 * Reads a body only when its route has let the caller in (`onRequest`). Until then `Expect: 100-continue` is not answered,
 * and what nobody reads is not kept: the connection ends unless the rest of the body comes soon.
 */
export function readBodiesLate(app: FastifyInstance): void {
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

/** The largest body of routes for other managers that takes none, or one of a few fields. */
export const SMALL_BODY = 64 * 1024;

/** For routes: who it is has to be known before the body is read, so that strangers do not fill our memory. */
export const beforeBody = (authenticate: (request: FastifyRequest) => Promise<unknown>) => ({
  onRequest: async (request: FastifyRequest): Promise<void> => {
    await authenticate(request);
  },
});

/** Is there a body that is yet to be read? */
export function hasBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** The body as JSON; an absent body is an empty one. */
export function jsonOf(request: FastifyRequest): unknown {
  return parseJson(request.body instanceof Uint8Array ? request.body : new Uint8Array());
}

/** What was read of it, or a refusal with all that is wrong. */
export function valueOf<T>(read: Read<T>): T {
  if ('value' in read) return read.value;
  throw new HttpError('bad-request', read.problems.join('\n'));
}
