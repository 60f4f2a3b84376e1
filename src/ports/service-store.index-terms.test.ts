import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Sample, sampleService } from './conformance/sample-service.ts';
import {
  type IndexTerm,
  indexTermsFor,
  labelled,
  readsBucket,
  usesBucket,
  visibleTo,
  visibleToAll,
} from './service-store.ts';

const input = (...places: [storage_provider: string, path: string][]) =>
  places.map(([storage_provider, path]) => ({ storage_provider, path }));

const cases: { name: string; service: Sample; terms: IndexTerm[] }[] = [
  { name: 'the owner sees the service', service: { owner: 'alice' }, terms: [visibleTo('alice')] },
  {
    name: 'a public one is seen by all',
    service: { definition: { visibility: 'public' } },
    terms: [visibleTo('alice'), visibleToAll],
  },
  {
    name: 'a restricted one is seen by those allowed, each once',
    service: { definition: { visibility: 'restricted', allowed_users: ['bob', 'alice', 'bob'] } },
    terms: [visibleTo('alice'), visibleTo('bob')],
  },
  {
    name: 'those allowed count for nothing while it is private',
    service: { definition: { allowed_users: ['bob'] } },
    terms: [visibleTo('alice')],
  },
  {
    name: 'it is found by the buckets it reads and uses in the store of the cluster, and in no other store',
    service: {
      definition: {
        input: input(
          ['minio', 'a/in'],
          ['MinIO.default', 'b'],
          ['minio.default', 'a/more'],
          ['minio.alias', 'c/in'],
          ['s3', 'd'],
        ),
        output: input(['minio.default', 'a/out'], ['minio.default', 'e/out'], ['minio.x', 'f/out'], ['s3', 'g']),
      },
    },
    terms: [visibleTo('alice'), ...['a', 'b', 'c'].map(readsBucket), ...['a', 'b', 'c', 'e'].map(usesBucket)],
  },
  {
    name: 'it is found by its labels',
    service: { definition: { labels: { team: 'a', stage: '' } } },
    terms: [visibleTo('alice'), labelled('team', 'a'), labelled('stage', '')],
  },
];

for (const { name, service, terms } of cases) {
  test(`index terms: ${name}`, () =>
    assert.deepEqual(indexTermsFor(sampleService('cow', service)).toSorted(), terms.toSorted()));
}

test('index terms: no name that a user chooses collides with another term', () => {
  assert.notEqual(visibleTo('public'), visibleToAll);
  assert.notEqual(labelled('a=b', 'c'), labelled('a', 'b=c'));
  assert.notEqual(labelled('a"=', 'c'), labelled('a', '"=c'));
});
