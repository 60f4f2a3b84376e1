import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loopProblems } from './paths.ts';
import { readDefinition } from './read.ts';

const define = (output: string, more: Record<string, unknown> = {}, provider = 'minio.default') =>
  readDefinition({
    name: 'demo',
    image: 'x',
    script: 'x',
    input: [{ storage_provider: 'minio', path: 'demo/in' }],
    output: [{ storage_provider: provider, path: output }],
    ...more,
  }).definition;

test('a result under an input of the same service would start it again', () => {
  for (const path of ['demo/in', 'demo/in/deep', ' /demo/in/ ']) {
    assert.deepEqual(
      loopProblems(define(path)).map((problem) => problem.path),
      ['output[0].path'],
      path,
    );
  }
});

test('a folder beside the input is fine, and so is another store', () => {
  for (const path of ['demo/out', 'demo/input', 'demo/i', 'other/in']) assert.deepEqual(loopProblems(define(path)), []);
  assert.deepEqual(loopProblems(define('demo/in', {}, 's3.x')), []);
});

test('whoever means it can say so', () => {
  assert.deepEqual(loopProblems(define('demo/in', { annotations: { 'oscar-manager/allow-loop': 'true' } })), []);
});
