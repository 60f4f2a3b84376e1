import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { bucketProblem, folderProblem, normalisePath, parseProvider, splitPath } from './storage.ts';

const references: [string, string, string][] = [
  ['minio', 'minio', 'default'],
  ['MinIO', 'minio', 'default'],
  ['minio.default', 'minio', 'default'],
  ['minio.', 'minio', 'default'],
  ['s3.My-Id', 's3', 'My-Id'],
  ['webdav.a.b', 'webdav', 'a.b'],
  ['', '', 'default'],
];
for (const [text, type, id] of references) {
  test(`paths: provider ${JSON.stringify(text)} is type ${type}, id ${id}`, () => {
    assert.deepEqual(parseProvider(text), { type, id });
  });
}

const paths: [string, string, string][] = [
  ['minio', ' /in/ ', 'svc/in'],
  ['minio', 'in', 'svc/in'],
  ['minio', 'bucket/', 'svc/bucket'],
  ['minio', '//bucket/in/deep//', 'bucket/in/deep'],
  ['s3.x', 'in', 'svc/in'],
  ['webdav.x', '/results', 'results'],
  ['minio', ' / ', ''],
  ['minio', '', ''],
];
for (const [provider, path, expected] of paths) {
  test(`paths: ${provider} path ${JSON.stringify(path)} becomes ${JSON.stringify(expected)}`, () => {
    assert.equal(normalisePath(path, parseProvider(provider), 'svc'), expected);
  });
}

test('paths: normalising is idempotent', () => {
  fc.assert(
    fc.property(fc.string(), fc.constantFrom('minio', 's3.a', 'webdav.b'), (path, reference) => {
      const provider = parseProvider(reference);
      const once = normalisePath(path, provider, 'svc');
      assert.equal(normalisePath(once, provider, 'svc'), once);
    }),
  );
});

test('paths: the first segment is the bucket, the rest is the folder', () => {
  assert.deepEqual(splitPath('a/b/c'), { bucket: 'a', folder: 'b/c' });
  assert.deepEqual(splitPath('a'), { bucket: 'a', folder: '' });
});

const NO_BUCKETS = [
  'ab',
  'A-bucket',
  'a_b',
  '-ab',
  'ab-',
  'a..b',
  'a.-b',
  'a-.b',
  '10.0.0.1',
  'a'.repeat(64),
  'ünï',
  '',
  '../x',
];
for (const bucket of NO_BUCKETS) {
  test(`paths: ${JSON.stringify(bucket)} is not a bucket name`, () =>
    assert.match(bucketProblem(bucket) ?? '', /bucket/));
}
for (const bucket of ['oscar-staging', 'oscar-staging-2', 'oscar-events']) {
  test(`paths: the bucket ${bucket} is reserved for the manager`, () => {
    assert.match(bucketProblem(bucket) ?? '', /kept for the manager/);
  });
}
for (const bucket of ['abc', 'my.bucket-1', 'a'.repeat(63), 'oscar']) {
  test(`paths: ${bucket.slice(0, 20)} is a bucket name`, () => assert.equal(bucketProblem(bucket), undefined));
}

test('paths: a folder with empty or relative parts is rejected', () => {
  for (const folder of ['a//b', '../x', 'a/..', '.', 'a/./b', 'x'.repeat(513)])
    assert.ok(folderProblem(folder), folder);
  for (const folder of ['in', 'in/deep', '..a/b..', 'ünï cödé']) assert.equal(folderProblem(folder), undefined);
});
