import swagger from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import type { TSchema } from 'typebox';
import { requestSchema, responseSchema } from '../service/index.ts';

const SERVICE_KEYS = ['name', 'image', 'script'];

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
      const body = schema.body as (TSchema & { properties?: Record<string, unknown> }) | undefined;
      const response = schema.response as Record<string, TSchema> | undefined;
      const isService = body?.properties !== undefined && 'image' in body.properties;
      return {
        url,
        schema: {
          ...schema,
          ...(body && { body: requestSchema(body, isService ? SERVICE_KEYS : []) }),
          ...(response && {
            response: Object.fromEntries(Object.entries(response).map(([status, of]) => [status, responseSchema(of)])),
          }),
        },
      };
    },
  });
  app.get('/openapi.json', { schema: { hide: true } }, () => app.swagger());
}
