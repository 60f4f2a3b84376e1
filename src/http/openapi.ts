import { readFileSync } from 'node:fs';
import swagger, { type FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import type { TSchema } from 'typebox';
import { requestSchema, responseSchema } from '../model/service/index.ts';

const SERVICE_KEYS = ['name', 'image', 'script'];

type Json = { [key: string]: unknown };

/** Names the schema of a service, so that the document holds it once. */
function named(schema: Json, name: string): Json {
  const { properties } = schema as { properties?: Json };
  return properties && 'image' in properties ? { ...schema, title: name } : schema;
}

/** Moves every schema with a title below `components` and leaves a reference in its place. */
function hoist(node: unknown, schemas: Json): unknown {
  if (Array.isArray(node)) return node.map((item) => hoist(item, schemas));
  if (typeof node !== 'object' || node === null) return node;
  const moved = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, hoist(value, schemas)]));
  const { title, type } = moved;
  if (typeof title !== 'string' || type !== 'object') return moved;
  schemas[title] = moved;
  return { $ref: `#/components/schemas/${title}` };
}

function describeRequest(schema: TSchema): Json {
  const request = named(requestSchema(schema), 'ServiceDefinition');
  return request['title'] === undefined ? request : { ...request, required: SERVICE_KEYS };
}

function describeResponse(schema: TSchema): Json {
  const response = responseSchema(schema);
  const { items } = response as { items?: Json };
  return items ? { ...response, items: named(items, 'Service') } : named(response, 'Service');
}

type OpenApi = ReturnType<NonNullable<FastifyDynamicSwaggerOptions['transformObject']>>;

/** Collects the routes into an OpenAPI document. Register it before the routes. */
export async function describeApi(app: FastifyInstance, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'OSCAR Manager',
        version,
        description: 'Errors are plain text: a sentence that says what was wrong and what to do.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      components: {
        securitySchemes: {
          basic: { type: 'http', scheme: 'basic', description: 'The administrator' },
          bearer: {
            type: 'http',
            scheme: 'bearer',
            description: 'A user, by an access token; or, to invoke a service, its token',
          },
        },
      },
      security: [{ basic: [] }, { bearer: [] }],
    },
    transform: ({ schema, url }) => {
      if (!schema) return { schema: {}, url };
      const body = schema.body as TSchema | undefined;
      const response = schema.response as Record<string, TSchema> | undefined;
      return {
        url,
        schema: {
          ...schema,
          ...(body && { body: describeRequest(body) }),
          ...(response && {
            response: Object.fromEntries(
              Object.entries(response).map(([status, of]) => [status, describeResponse(of)]),
            ),
          }),
        },
      };
    },
    transformObject: (document) => {
      const { components, paths, ...rest } = 'openapiObject' in document ? document.openapiObject : {};
      const schemas: Json = {};
      const hoisted = hoist(paths, schemas) as typeof paths;
      return { ...rest, components: { ...components, schemas }, paths: hoisted } as OpenApi;
    },
  });
  app.get('/openapi.json', { schema: { hide: true } }, () => app.swagger());
}

interface Operation {
  summary?: string;
  tags?: string[];
  parameters?: { name: string; in: string; description?: string }[];
  requestBody?: unknown;
  responses?: Record<string, unknown>;
}

/** The part of an OpenAPI document that the page shows. */
export interface ApiDocument {
  info: { title: string; version: string };
  paths?: Record<string, Record<string, Operation>>;
}

const template = readFileSync(new URL('../../web/api.html', import.meta.url), 'utf8');

/** The API for people: every operation with its parameters and answers, on one page without scripts. */
export function apiPage(document: ApiDocument): string {
  const rows = Object.entries(document.paths ?? {}).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => operationRow(method, path, operation)),
  );
  return template
    .replaceAll('{{version}}', () => escape(document.info.version))
    .replace('{{operations}}', () => rows.join('\n'));
}

function operationRow(method: string, path: string, operation: Operation): string {
  const parameters = (operation.parameters ?? [])
    .filter((parameter) => parameter.in === 'query')
    .map(({ name, description }) => `<li><code>?${escape(name)}</code> ${escape(description ?? '')}</li>`);
  const body = operation.requestBody ? '<li>JSON body, see <a href="/openapi.json">openapi.json</a></li>' : '';
  const answers = Object.keys(operation.responses ?? {}).join(', ');
  return `<tr><td><b>${method.toUpperCase()}</b></td><td><code>${escape(path)}</code></td>
<td>${escape(operation.summary ?? '')}<ul>${parameters.join('')}${body}</ul></td><td>${escape(answers)}</td></tr>`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
