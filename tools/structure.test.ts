import assert from 'node:assert/strict';
import { test } from 'node:test';
import { duplicateFileNames, duplicateNames } from './structure.ts';

test('unique names: a name that two files declare is found, as a type or as a value', () => {
  const sources = new Map([
    ['src/jobs/place.ts', 'export interface Place {}\nexport const once = 1;'],
    ['src/federation/place.ts', 'export class Place {}'],
    ['src/http/place.ts', 'export const Place = 1;\nconst once = 2;'],
  ]);
  assert.deepEqual(duplicateNames(sources), ['Place: src/federation/place.ts, src/http/place.ts, src/jobs/place.ts']);
});

test('unique names: a re-export is not a second declaration', () => {
  const sources = new Map([
    ['src/jobs/queue.ts', 'export class JobQueue {}'],
    ['src/jobs/index.ts', `export { JobQueue } from './queue.ts';`],
  ]);
  assert.deepEqual(duplicateNames(sources), []);
});

test('unique file names: a name that occurs twice below a top folder is found', () => {
  const files = ['src/jobs/queue.ts', 'src/jobs/scheduler/deep/queue.ts', 'src/jobs/other.ts'];
  assert.deepEqual(duplicateFileNames(files), [
    'src/jobs/…/queue.ts: src/jobs/queue.ts, src/jobs/scheduler/deep/queue.ts',
  ]);
});

test('unique file names: other top folders may have the same name, and each folder index, errors and types', () => {
  const common = ['index.ts', 'errors.ts', 'types.ts'].flatMap((name) => [
    `src/jobs/${name}`,
    `src/jobs/sweep/${name}`,
  ]);
  const files = [
    ...common,
    'src/jobs/config.ts',
    'src/http/config.ts',
    'src/config.ts',
    'src/http/http.ts',
    'src/http.ts',
  ];
  assert.deepEqual(duplicateFileNames(files), []);
});
