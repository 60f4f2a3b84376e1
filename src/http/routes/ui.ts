import type { FastifyInstance } from 'fastify';
import { movedPage } from '../routing.ts';

const HTML = 'text/html; charset=utf-8';

export interface UiOptions {
  /** Pages by path below `/ui/`; `''` is the first one. */
  readonly pages: Readonly<Record<string, () => string>>;
}

/**
 * The page for people. Missing files are 404 without a body; HEAD works here and nowhere else
 * (docs/go-manager.md#http).
 */
export function uiRoutes(app: FastifyInstance, { pages }: UiOptions): void {
  const hide = true;
  app.get('/', { schema: { hide } }, (_request, reply) =>
    reply.code(301).header('location', '/ui/').type(HTML).send(movedPage('/ui/')),
  );
  app.route<{ Params: { '*': string } }>({
    method: ['GET', 'HEAD'],
    url: '/ui/*',
    schema: { hide },
    handler: (request, reply) => {
      const path = request.params['*'];
      const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
      return page === undefined ? reply.code(404).send() : reply.type(HTML).send(page());
    },
  });
}
