import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import swagger, { type FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import type { TSchema } from 'typebox';
import { requestSchema, responseSchema } from '../model/service/index.ts';
import { MEMBER_HEADER } from '../peers/index.ts';
import { commonAnswers } from './answers.ts';

const SERVICE_KEYS = ['name', 'image', 'script'];

type Json = { [key: string]: unknown };

const isService = ({ properties }: { properties?: unknown }) =>
  typeof properties === 'object' && properties !== null && 'image' in properties && 'script' in properties;

/** Names the schema of a service, so that the document holds it once. */
const named = (schema: Json, name: string): Json => (isService(schema) ? { ...schema, title: name } : schema);

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

/** Definitions are read with leniencies, and keys that are left out have zero values; other bodies are as their schemas say. */
function describeRequest(schema: TSchema): Json {
  if (!isService(schema)) return 'content' in schema ? (schema as unknown as Json) : responseSchema(schema);
  return { ...named(requestSchema(schema), 'ServiceDefinition'), required: SERVICE_KEYS, examples: [EXAMPLE_SERVICE] };
}

function describeResponse(schema: TSchema): Json {
  const { content } = schema as { content?: Record<string, { schema: TSchema }> };
  if (content) {
    const media = Object.entries(content).map(([type, each]) => [type, { schema: describeResponse(each.schema) }]);
    return { ...schema, content: Object.fromEntries(media) };
  }
  const response = responseSchema(schema);
  const { items } = response as { items?: Json };
  return items ? { ...response, items: named(items, 'Service') } : named(response, 'Service');
}

const EXAMPLE_SERVICE = {
  name: 'grayify',
  image: 'ghcr.io/grycap/imagemagick',
  script: '#!/bin/sh\nconvert "$INPUT_FILE_PATH" -type Grayscale "$TMP_OUTPUT_DIR/image.jpg"\n',
  memory: '512Mi',
  cpu: '0.5',
  input: [{ storage_provider: 'minio.default', path: 'grayify/input' }],
  output: [{ storage_provider: 'minio.default', path: 'grayify/output' }],
};

type OpenApi = ReturnType<NonNullable<FastifyDynamicSwaggerOptions['transformObject']>>;

/** Collects the routes into an OpenAPI document. Register it before the routes. */
export async function describeApi(app: FastifyInstance, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'OSCAR Manager',
        version,
        description:
          'Errors are plain text: a sentence that says what was wrong and what to do. 401 has no body, and neither has 404 ' +
          'where a service or a job is not found. An internal error of the manager is 500, with the id of the request.',
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
          store: { type: 'http', scheme: 'bearer', description: 'The object store, by `OSCAR_EVENTS_TOKEN`' },
          member: {
            type: 'apiKey',
            in: 'header',
            name: MEMBER_HEADER,
            description: 'Another manager, which signs the request (docs/peer-protocol.md#x-oscar-member)',
          },
        },
      },
      security: [{ basic: [] }, { bearer: [] }],
    },
    transform: ({ schema, url }) => {
      if (!schema) return { schema: {}, url };
      const body = schema.body as TSchema | undefined;
      const response = {
        ...commonAnswers({
          isOpen: schema.security?.length === 0,
          hasParams: url.includes(':'),
          hasBody: body !== undefined,
        }),
        ...(schema.response as Record<string, TSchema> | undefined),
      };
      return {
        url,
        schema: {
          ...schema,
          ...(body && { body: describeRequest(body) }),
          response: Object.fromEntries(
            Object.entries(response).map(([status, of]) => [status, describeResponse(of as TSchema)]),
          ),
        },
      };
    },
    transformObject: (document) => {
      const { components, paths, ...rest } = 'openapiObject' in document ? document.openapiObject : {};
      const schemas: Json = {};
      const responses: Json = {};
      markOptionalBodies(paths as Json);
      const hoisted = hoist(paths, schemas) as typeof paths;
      shareErrors(hoisted as Json, responses);
      return { ...rest, components: { ...components, schemas, responses }, paths: hoisted } as OpenApi;
    },
  });
  app.get('/openapi.json', { schema: { hide: true } }, () => app.swagger());
}

/** A body whose schema has `x-optional` may be left out; Fastify has no other way to say so. */
function markOptionalBodies(paths: Json): void {
  for (const operation of Object.values(paths).flatMap((methods) => Object.values(methods as Json))) {
    const { requestBody } = operation as {
      requestBody?: { required: boolean; content: Record<string, { schema?: Json }> };
    };
    if (!requestBody) continue;
    for (const { schema } of Object.values(requestBody.content)) {
      if (schema?.['x-optional'] !== true) continue;
      requestBody.required = false;
      delete schema['x-optional'];
    }
  }
}

/** Moves the error answers that many operations have below `components`, under a status and the kind of body: `Text409`. */
function shareErrors(paths: Json, shared: Json): void {
  for (const operation of Object.values(paths).flatMap((methods) => Object.values(methods as Json))) {
    const { responses } = operation as { responses: Record<string, { content?: Json }> };
    for (const [status, response] of Object.entries(responses)) {
      if (Number(status) < 400) continue;
      const [type] = Object.keys(response.content ?? {});
      const name = `${type === undefined ? 'Empty' : type === 'text/plain' ? 'Text' : 'Json'}${status}`;
      shared[name] ??= response;
      if (!isDeepStrictEqual(shared[name], response)) continue;
      responses[status] = { $ref: `#/components/responses/${name}` } as object;
    }
  }
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
