import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDefinition } from './read.ts';
import { loopProblems } from './storage.ts';

const define = (output: string, more: Record<string, unknown> = {}, provider = 'minio.default') =>
  readDefinition({
    name: 'demo',
    image: 'x',
    script: 'x',
    input: [{ storage_provider: 'minio', path: 'demo/in' }],
    output: [{ storage_provider: provider, path: output }],
    ...more,
  }).definition;

test('loops: an output below an input of the same service is a problem', () => {
  for (const path of ['demo/in', 'demo/in/deep', ' /demo/in/ ']) {
    assert.deepEqual(
      loopProblems(define(path)).map((problem) => problem.path),
      ['output[0].path'],
      path,
    );
  }
});

test('loops: an output in another folder or another store is allowed', () => {
  for (const path of ['demo/out', 'demo/input', 'demo/i', 'other/in']) assert.deepEqual(loopProblems(define(path)), []);
  assert.deepEqual(loopProblems(define('demo/in', {}, 's3.x')), []);
});

test('loops: a definition can allow its own loop', () => {
  assert.deepEqual(loopProblems(define('demo/in', { annotations: { 'oscar-manager/allow-loop': 'true' } })), []);
});
