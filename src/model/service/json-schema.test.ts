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

describe('the schema of FDL files, for editors', () => {
  test('takes services by themselves and under the id of their cluster', () => {
    assert.equal(inFdl(least), true);
    assert.equal(inFdl({ 'cluster-a': least }), true);
    assert.equal(
      fdl.Check({ functions: { oscar: [least] }, clusters: { b: { endpoint: 'https://b.example' } } }),
      true,
    );
  });

  test('takes what clients write: numbers for cpu, one port, weights', () => {
    const federation = { topology: 'mesh', delegation: { mode: 'random', weights: { a: 1 } } };
    assert.equal(inFdl({ ...least, cpu: 1, memory: '1Gi', expose: { api_port: 80 }, federation }), true);
  });

  test('marks what is wrong', () => {
    assert.equal(inFdl({ name: 'demo' }), false);
    assert.equal(inFdl({ ...least, visibility: 'open' }), false);
    assert.equal(inFdl({ ...least, cpu: true }), false);
    assert.equal(inFdl({ ...least, input: 'in' }), false);
    assert.equal(fdl.Check({}), false);
  });
});

test('every body that is read is one that the schema of requests takes, letter case and blanks apart', () => {
  const request = Compile(requestSchema(ServiceSchema, ['name', 'image', 'script']) as never);
  fc.assert(
    fc.property(serviceBodies, (body) => {
      const { federation, log_level, isolation_level, visibility, ...rest } = body;
      assert.equal(request.Check(rest), true, JSON.stringify(rest));
    }),
  );
});
