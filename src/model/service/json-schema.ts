import type { TSchema } from 'typebox';
import { type Leniency, ServiceSchema } from './schema.ts';

/** JSON Schema as plain data, for OpenAPI and for editors. */
export type JsonSchema = { [key: string]: unknown };

const ALTERNATIVES: Record<Leniency, (schema: JsonSchema) => JsonSchema> = {
  number: ({ description, ...rest }) => ({ description, anyOf: [rest, { type: 'number' }] }),
  single: ({ description, ...rest }) => ({ description, anyOf: [rest, { type: 'integer' }] }),
  mode: (schema) => {
    const { delegation, ...others } = schema['properties'] as Record<string, JsonSchema>;
    const { description, ...rest } = delegation ?? {};
    const withWeights = {
      type: 'object',
      properties: { mode: rest, weights: others['weights'] ?? {} },
    };
    return { ...schema, properties: { ...others, delegation: { description, anyOf: [rest, withWeights] } } };
  },
};

/** The schema of requests: with all leniencies, and only keys required that have no zero value. */
export function requestSchema(schema: TSchema, required: readonly string[] = []): JsonSchema {
  return { ...convert(plain(schema), true), ...(required.length > 0 && { required }) };
}

/** The schema of answers. */
export function responseSchema(schema: TSchema): JsonSchema {
  return convert(plain(schema), false);
}

function plain(schema: TSchema): JsonSchema {
  return JSON.parse(JSON.stringify(schema)) as JsonSchema;
}

function convert(schema: JsonSchema, request: boolean): JsonSchema {
  const { accepts, keepZero, required, patternProperties, properties, items, anyOf, ...rest } = schema;
  const each = (map: unknown) =>
    Object.fromEntries(
      Object.entries(map as Record<string, JsonSchema>).map(([key, value]) => [key, convert(value, request)]),
    );
  const converted: JsonSchema = {
    ...rest,
    ...(required !== undefined && !request && { required }),
    ...(properties !== undefined && { properties: each(properties) }),
    ...(patternProperties !== undefined && { additionalProperties: Object.values(each(patternProperties))[0] }),
    ...(items !== undefined && { items: convert(items as JsonSchema, request) }),
    ...(anyOf !== undefined && { anyOf: (anyOf as JsonSchema[]).map((option) => convert(option, request)) }),
  };
  return accepts && request ? ALTERNATIVES[accepts as Leniency](converted) : converted;
}

/** Keys of a definition that are not written into FDL files. */
const SET_BY_MANAGER = ['token', 'owner', 'namespace', 'bucket_list', 'volume_status', 'deployment'];

/** The schema of an FDL file, for editors: `docs/fdl.schema.json`. */
export function fdlSchema(): JsonSchema {
  const service = requestSchema(ServiceSchema, ['name', 'image', 'script']);
  const properties = Object.fromEntries(
    Object.entries(service['properties'] as Record<string, JsonSchema>).filter(
      ([key]) => !SET_BY_MANAGER.includes(key),
    ),
  );
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'OSCAR functions definition language (FDL)',
    type: 'object',
    required: ['functions'],
    properties: {
      functions: {
        type: 'object',
        required: ['oscar'],
        properties: {
          oscar: {
            description: 'Services, each by itself or under the id of its cluster',
            type: 'array',
            items: {
              anyOf: [
                { $ref: '#/$defs/service' },
                {
                  type: 'object',
                  maxProperties: 1,
                  minProperties: 1,
                  additionalProperties: { $ref: '#/$defs/service' },
                },
              ],
            },
          },
        },
      },
      clusters: properties['clusters'],
      storage_providers: properties['storage_providers'],
    },
    $defs: {
      service: {
        ...service,
        properties: {
          ...properties,
          script: { type: 'string', description: 'the file of the script, relative to this one' },
        },
      },
    },
  };
}
