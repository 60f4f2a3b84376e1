import type { FastifyInstance } from 'fastify';

/** How long a browser may remember a preflight. */
const REMEMBER_SECONDS = 600;

/**
 * Lets pages of these origins call the manager. Off by default: the ingress does it, or the page is served from here;
 * then no header is added and OPTIONS is 404 like any unknown method (contract §1.0).
 */
export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const all = origins.includes('*');
  app.addHook('onRequest', async (request, reply) => {
    const { origin } = request.headers;
    reply.header('vary', 'Origin');
    if (origin === undefined || !(all || origins.includes(origin))) return;
    reply.header('access-control-allow-origin', all ? '*' : origin);
    reply.header(
      'access-control-expose-headers',
      'etag, location, retry-after, x-oscar-exit-code, x-oscar-job-id, x-request-id',
    );
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) return;
    return reply
      .code(204)
      .header('access-control-allow-methods', 'GET, POST, PUT, DELETE')
      .header('access-control-allow-headers', 'authorization, content-type, if-match, last-event-id')
      .header('access-control-max-age', String(REMEMBER_SECONDS))
      .send();
  });
}
