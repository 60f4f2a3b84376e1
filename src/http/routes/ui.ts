import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { movedPage } from '../routing.ts';

const HTML = 'text/html; charset=utf-8';

export interface UiOptions {
  /** The description of the API, as a page. */
  readonly apiPage: () => string;
  /** The object store, to which browsers upload with presigned URLs. */
  readonly storeEndpoint: string;
  /** Where `npm run build:page` puts the page. */
  readonly directory?: string;
}

/**
 * The page for people, below `/ui/`. The paths of its views (`/ui/jobs/…`) get the same document; the page shows what the path
 * names. Missing files are 404 without a body; HEAD works here and nowhere else (docs/go-manager.md#http).
 */
export function uiRoutes(app: FastifyInstance, { apiPage, storeEndpoint, directory = BUILT }: UiOptions): void {
  const hide = true;
  const files = readFiles(directory);
  const headers = securityHeaders(storeEndpoint);
  app.get('/', { schema: { hide } }, (_request, reply) =>
    reply.code(301).header('location', '/ui/').type(HTML).send(movedPage('/ui/')),
  );
  app.route<{ Params: { '*': string } }>({
    method: ['GET', 'HEAD'],
    url: '/ui/*',
    schema: { hide },
    handler: (request, reply) => {
      const path = request.params['*'];
      reply.headers(headers);
      if (path === 'api.html')
        return reply.header('content-security-policy', API_PAGE_POLICY).type(HTML).send(apiPage());
      const file = files.get(VIEWS.test(path) ? 'index.html' : path);
      if (file) return sendFile(file, request, reply);
      if (VIEWS.test(path)) return reply.code(503).type(HTML).send(NOT_BUILT);
      return reply.removeHeader('content-security-policy').code(404).send();
    },
  });
}

/** The first part of the path of each view; the page itself knows what follows. */
const VIEWS = /^(?:|(?:services|jobs|data|run|cluster)(?:\/.*)?)$/;

const BUILT = fileURLToPath(new URL('../../../web/dist/', import.meta.url));

const NOT_BUILT =
  '<!doctype html><html lang="en"><title>OSCAR Manager</title><h1>OSCAR Manager</h1><p>The page has not been built: run ' +
  '<code>npm ci</code> or <code>npm run build:page</code>. The <a href="/ui/api.html">API</a> works without it.</p></html>';

/**
 * The page runs only its own scripts and styles, talks to this manager and its object store, and is shown in no frame. It is
 * isolated from pages that open it or that it opens.
 */
function securityHeaders(storeEndpoint: string): Record<string, string> {
  const store = URL.canParse(storeEndpoint) ? ` ${new URL(storeEndpoint).origin}` : '';
  const policy = {
    'default-src': "'none'",
    'script-src': "'self'",
    'style-src': "'self'",
    'img-src': `'self' data: blob:${store}`,
    'font-src': "'self'",
    'connect-src': `'self'${store}`,
    // PDF documents that the page has downloaded, with a type that it sets itself.
    'frame-src': 'blob:',
    'object-src': "'none'",
    'base-uri': "'none'",
    'form-action': "'none'",
    'frame-ancestors': "'none'",
  };
  return {
    'content-security-policy': Object.entries(policy)
      .map((entry) => entry.join(' '))
      .join('; '),
    'cross-origin-opener-policy': 'same-origin',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
  };
}

/** The description of the API has its style inside, and no script. */
const API_PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";

interface PageFile {
  readonly type: string;
  /** Names with a hash never get other content. */
  readonly immutable: boolean;
  readonly content: Readonly<Record<Encoding, Buffer | undefined>>;
}

type Encoding = 'br' | 'gzip' | 'identity';

const TYPES: Readonly<Record<string, string>> = {
  html: HTML,
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

/** The files of the page with their compressed forms, read once. Source maps are left out: they are for developers. */
function readFiles(directory: string): ReadonlyMap<string, PageFile> {
  if (!existsSync(directory)) return new Map();
  const names = readdirSync(directory).filter((name) => TYPES[name.replace(/^.*\./, '')] !== undefined);
  const read = (name: string) =>
    existsSync(`${directory}/${name}`) ? readFileSync(`${directory}/${name}`) : undefined;
  return new Map(
    names.map((name) => [
      name,
      {
        type: TYPES[name.replace(/^.*\./, '')] ?? '',
        immutable: name !== 'index.html',
        content: { br: read(`${name}.br`), gzip: read(`${name}.gz`), identity: read(name) },
      },
    ]),
  );
}

function sendFile({ type, immutable, content }: PageFile, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const accepted = request.headers['accept-encoding'] ?? '';
  const encoding = (['br', 'gzip'] as const).find(
    (each) => content[each] && new RegExp(`\\b${each}\\b`).test(accepted),
  );
  if (encoding) reply.header('content-encoding', encoding);
  return reply
    .header('vary', 'accept-encoding')
    .header('cache-control', immutable ? 'public, max-age=31536000, immutable' : 'no-cache')
    .type(type)
    .send(content[encoding ?? 'identity']);
}
