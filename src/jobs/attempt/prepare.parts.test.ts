import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Sample, sampleService } from '../../ports/conformance/sample-service.ts';
import { readEvent } from '../event.ts';
import { attemptParts } from './prepare.ts';

function traitsOf(definition: Sample['definition'] = {}, record?: { service: string; id: string }) {
  const basis = {
    name: 'cows-1',
    job: 'cows-1',
    service: sampleService('cows', { namespace: 'oscar-svc-alice', definition }),
    event: readEvent(Buffer.from('{}')),
    file: undefined,
    secrets: {},
    ...(record && { record }),
  };
  return attemptParts(basis, { node: 'here', timeout: 60_000 }).traits;
}

test('pod traits: they have the namespace, labels and requests of the service', () => {
  const traits = traitsOf({
    labels: { team: 'a' },
    annotations: { note: 'b' },
    image_pull_secrets: ['registry'],
    enable_sgx: true,
    ephemeral_storage_request: '1Ki',
  });
  assert.deepEqual(
    [traits?.namespace, traits?.job, traits?.imagePullSecrets, traits?.sgx, traits?.localDisk],
    ['oscar-svc-alice', { service: 'cows', id: 'cows-1' }, ['registry'], true, 1024],
  );
  assert.deepEqual([traits?.labels['team'], traits?.labels['oscar_service']], ['a', 'cows']);
  assert.deepEqual(traits?.annotations, { note: 'b' });
});

test('pod traits: a service without requests has none', () => {
  const traits = traitsOf();
  assert.deepEqual([traits?.imagePullSecrets, traits?.sgx, 'localDisk' in (traits ?? {})], [[], false, false]);
});

test('pod traits: a hosted attempt names the record of this cluster', () => {
  assert.deepEqual(traitsOf({}, { service: 'cows', id: 'cows-here' })?.job, { service: 'cows', id: 'cows-here' });
});
