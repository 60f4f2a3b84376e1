import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apiTypes } from './api-types.ts';

test('API types: an operation has its query, body and response', () => {
  const json = (schema: object) => ({ content: { 'application/json': { schema } } });
  const text = apiTypes({
    components: { schemas: { Job: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] } } },
    paths: {
      '/jobs/{name}': {
        get: {
          parameters: [
            { name: 'name', in: 'path' },
            { name: 'page', in: 'query' },
          ],
          responses: { 200: json({ type: 'array', items: { $ref: '#/components/schemas/Job' } }) },
        },
        post: { requestBody: json({ enum: ['a', 1] }), responses: { 201: {} } },
      },
    },
  });
  assert.match(text, /export type Job = \{\n {2}readonly 'id': string;\n\};/);
  assert.match(text, /'GET \/jobs\/\{name\}': \{\n {4}readonly query: 'page';\n {4}readonly body: undefined;\n/);
  assert.match(text, /readonly response: readonly \(Job\)\[\];/);
  assert.match(text, /readonly body: 'a' \| 1;/);
});

test('API types: a record, a union and an unknown value', () => {
  const body = (schema: object) =>
    apiTypes({ paths: { '/': { get: { responses: { 200: { content: { 'application/json': { schema } } } } } } } });
  assert.match(body({ type: 'object', additionalProperties: { type: 'integer' } }), /Readonly<Record<string, number>>/);
  assert.match(body({ anyOf: [{ type: 'null' }, { type: 'boolean' }] }), /response: null \| boolean;/);
  assert.match(body({}), /response: unknown;/);
});
