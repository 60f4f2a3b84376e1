import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { FEDERATION_HEADER, MEMBER_HEADER } from '../peers/index.ts';
import { answerCode } from './errors.ts';
import { NEVER_SHED } from './shedding.ts';

/*
 * Which route gets a request: users and other managers have separate routes under the same path, and a path without a
 * route is answered here.
 */

/** A route with this gets the requests that other managers signed; a route without it, under the same path, gets all others. */
export const SIGNED = { ...NEVER_SHED, constraints: { signed: 'yes' }, errorHandler: answerCode };

/** Lets the router separate requests that other managers signed from all others. */
export const routeSigned = (app: FastifyInstance) => routeByHeader(app, 'signed', MEMBER_HEADER);

/**
 * A route with this gets the requests of coordinators (`X-Oscar-Federation`); a route without it, under the same path, gets
 * those of users.
 */
export const FROM_COORDINATOR = { ...NEVER_SHED, constraints: { coordinator: 'yes' } };

/** Lets the router separate requests of coordinators from those of users. */
export const routeCoordinators = (app: FastifyInstance) => routeByHeader(app, 'coordinator', FEDERATION_HEADER);

function routeByHeader(app: FastifyInstance, constraint: string, header: string): void {
  app.addConstraintStrategy({
    name: constraint,
    storage: () => {
      const handlers = new Map<unknown, Handler>();
      return {
        get: (value) => handlers.get(value) ?? null,
        set: (value, handler) => void handlers.set(value, handler),
      };
    },
    deriveConstraint: ({ headers }) => (headers[header] === undefined ? undefined : 'yes'),
  });
}

type Strategy = Parameters<FastifyInstance['addConstraintStrategy']>[0];
type Handler = Parameters<ReturnType<Strategy['storage']>['set']>[1];

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
