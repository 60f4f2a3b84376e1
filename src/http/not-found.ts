import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

/**
 * Unknown routes and wrong methods get 404 with this text, before any authentication, and never 405
 * (docs/go-manager.md#http). A path that exists with or without a trailing slash is redirected, because oscar-js and
 * oscar_python rely on it.
 */
export function answerNotFound(app: FastifyInstance): void {
  const routes: { method: string; pattern: RegExp }[] = [];
  app.addHook('onRoute', ({ method, url }) => {
    const pattern = new RegExp(`^${url.replace(/:[^/]+/g, '[^/]+').replace('*', '.*')}$`);
    for (const name of [method].flat()) routes.push({ method: name, pattern });
  });
  const exists = (method: string, path: string) =>
    routes.some((route) => route.method === method && route.pattern.test(path));

  // The router accepts an empty parameter, but `/system/services/` is another path than `/system/services/:name`.
  app.addHook('onRequest', async (request, reply) => {
    const { '*': _, ...named } = (request.params ?? {}) as Record<string, string>;
    if (!Object.values(named).includes('')) return undefined;
    reply.callNotFound();
    return reply;
  });

  const answer = (request: FastifyRequest, reply: FastifyReply) => {
    const [path = '', ...query] = request.raw.url?.split('?') ?? [];
    const other = path.endsWith('/') ? path.slice(0, -1) : `${path}/`;
    if (request.method === 'HEAD' || !exists(request.method, other)) return pageNotFound(reply);
    return redirect(request, reply, [other, ...query].join('?'));
  };
  app.setNotFoundHandler(answer);
  // Answer before the body is read, because it is not needed.
  app.addHook('preParsing', (request, reply, payload, done) => {
    if (request.is404) void answer(request, reply);
    else done(null, payload);
  });
}

function pageNotFound(reply: FastifyReply): FastifyReply {
  // Without charset, like the Go manager; Fastify would add one to a string.
  return reply.code(404).header('content-type', 'text/plain').send(Buffer.from('404 page not found'));
}

function redirect(request: FastifyRequest, reply: FastifyReply, location: string): FastifyReply {
  reply.header('location', location);
  if (request.method !== 'GET') return reply.code(307).send();
  return reply.code(301).type('text/html; charset=utf-8').send(movedPage(location));
}

export function movedPage(location: string): string {
  const escaped = location
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&#34;');
  return `<a href="${escaped}">Moved Permanently</a>.\n\n`;
}
