import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';

/** The id a caller or a proxy gave the request, if it is one that may stand in a log; else a new one. */
export function requestId(raw: IncomingMessage): string {
  const given = raw.headers['x-request-id'];
  return typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given) ? given : randomUUID();
}

/** W3C Trace Context: version, trace id, span id, flags. */
const TRACEPARENT = /^[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

/** The trace that a request belongs to, as every log line of it carries it. */
export function traceOf(raw: IncomingMessage): { trace?: string } {
  const header = raw.headers['traceparent'];
  const trace = typeof header === 'string' ? TRACEPARENT.exec(header)?.[1] : undefined;
  return trace === undefined ? {} : { trace };
}

/** One line per request, when it is answered. The query stays out of it: it may hold a token (S12). */
export function logRequests(app: FastifyInstance): void {
  app.decorateRequest('who', '');
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
  });
  app.addHook('onResponse', async (request, reply) => {
    const path = request.raw.url?.split('?')[0];
    const quiet = path === '/health';
    request.log[quiet ? 'debug' : 'info'](
      {
        method: request.method,
        path,
        status: reply.statusCode,
        ms: Math.round(reply.elapsedTime * 100) / 100,
        ...(request.who !== '' && { user: request.who }),
      },
      'request',
    );
  });
}
