import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { Compile } from 'typebox/schema';
import { fdlSchema, requestSchema } from './json-schema.ts';
import { ServiceSchema } from './schema.ts';
import { serviceBodies } from './service.arbitrary.ts';

const fdl = Compile(fdlSchema() as never);
const inFdl = (...oscar: unknown[]) => fdl.Check({ functions: { oscar } });
const least = { name: 'demo', image: 'ubuntu', script: 'script.sh' };

describe('JSON Schema of FDL files', () => {
  test('accepts services without and with the id of their cluster', () => {
    assert.equal(inFdl(least), true);
    assert.equal(inFdl({ 'cluster-a': least }), true);
    assert.equal(
      fdl.Check({ functions: { oscar: [least] }, clusters: { b: { endpoint: 'https://b.example' } } }),
      true,
    );
  });

  test('accepts what clients write: numbers for cpu, one port, weights', () => {
    const federation = { topology: 'mesh', delegation: { mode: 'random', weights: { a: 1 } } };
    assert.equal(inFdl({ ...least, cpu: 1, memory: '1Gi', expose: { api_port: 80 }, federation }), true);
  });

  test('rejects invalid definitions', () => {
    assert.equal(inFdl({ name: 'demo' }), false);
    assert.equal(inFdl({ ...least, visibility: 'open' }), false);
    assert.equal(inFdl({ ...least, cpu: true }), false);
    assert.equal(inFdl({ ...least, input: 'in' }), false);
    assert.equal(fdl.Check({}), false);
  });
});

test('JSON Schema of requests: accepts every body that the reader accepts, apart from letter case and blanks', () => {
  const request = Compile(requestSchema(ServiceSchema, ['name', 'image', 'script']) as never);
  fc.assert(
    fc.property(serviceBodies, (body) => {
      const { federation, log_level, isolation_level, visibility, ...rest } = body;
      assert.equal(request.Check(rest), true, JSON.stringify(rest));
    }),
  );
});
