import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parse } from 'yaml';
import { Secret } from '../../../lib/secret.ts';
import { ownedBy, readDefinition, type Service, ServiceSchema } from '../../../model/service/index.ts';
import { serviceBodies } from '../../../model/service/service.arbitrary.ts';
import { revealed, sampleService } from '../../../ports/conformance/sample-service.ts';
import type { ConfigMap, Stored } from '../client/kinds.ts';
import { fromConfigMap, isDefinition, toConfigMap } from './definition.ts';
import { FROM_GO } from './from-go.fixture.ts';

const objectStore = { endpoint: 'http://minio.minio:9000', verify: true, region: 'us-east-1' };

/** The object as the server returns it. */
function stored({ data = {}, metadata }: ConfigMap): Stored<ConfigMap> {
  return { data, metadata: { ...metadata, uid: 'uid-of-the-object', resourceVersion: '7' } };
}

const roundTrip = (service: Service) => fromConfigMap(stored(toConfigMap(service, objectStore)));

const yamlOf = (service: Service) => toConfigMap(service, objectStore).data?.['function_config.yaml'] ?? '';

test('definition: the ConfigMap has the name and label of the service, and the script as a key of its own', () => {
  const { metadata, data } = toConfigMap(sampleService('cow', { namespace: 'oscar-svc-alice' }), objectStore);
  assert.deepEqual(metadata, {
    name: 'cow',
    namespace: 'oscar-svc-alice',
    labels: { oscar_service: 'cow' },
    annotations: { 'oscar.grycap/uid': 'uid-of-cow' },
  });
  assert.deepEqual(Object.keys(data ?? {}), ['function_config.yaml', 'script.sh']);
  assert.equal(data?.['script.sh'], sampleService('cow').definition.script);
});

test('definition: the document has the keys of the Go manager in its order, without those stored elsewhere or read-only', () => {
  const document: Record<string, unknown> = parse(yamlOf(sampleService('cow')));
  const elsewhere = ['script', 'namespace', 'volume_status', 'deployment'];
  const absentWhenEmpty = ['federation', 'image_pull_secrets', 'clusters', 'volume', 'kserve'];
  const expected = Object.keys(ServiceSchema.properties).filter(
    (key) => ![...elsewhere, ...absentWhenEmpty].includes(key),
  );
  assert.deepEqual(Object.keys(document), expected);
});

test('definition: the document has the manager’s labels, the token in clear text, and hidden keys of the store', () => {
  const document = parse(yamlOf(sampleService('cow', { token: 't0ken' })));
  assert.equal(document.token, 't0ken');
  assert.equal(document.labels.oscar_service, 'cow');
  assert.equal(document.labels.owner_name, 'Alice');
  assert.deepEqual(document.storage_providers.minio.default, {
    ...objectStore,
    access_key: 'hidden',
    secret_key: 'hidden',
  });
});

test('definition: strings that look like other types stay strings for a YAML 1.1 reader', () => {
  const variables = { A: 'yes', B: '1:30', C: '0x1F', D: '~', E: 'null', F: '1e3', on: 'off' };
  const yaml = yamlOf(sampleService('cow', { definition: { environment: { variables, secrets: {} } } }));
  assert.deepEqual(parse(yaml, { version: '1.1' }).environment.variables, variables);
  assert.deepEqual(parse(yaml).environment.variables, variables);
});

test('definition: any definition survives a round trip', () => {
  const known = { uid: 'u', owner: 'alice', ownerName: 'Alice', namespace: 'oscar-svc-alice' };
  fc.assert(
    fc.property(serviceBodies, fc.string(), (body, token) => {
      const definition = ownedBy(readDefinition(body).definition, known.owner);
      const service = { ...known, definition, token: new Secret(token.replaceAll('\0', '').toWellFormed()) };
      assert.deepEqual(revealed(roundTrip(service).service), revealed(service));
    }),
  );
});

test('definition: one of more than 1 MiB is rejected before it is sent', () => {
  const script = 'é'.repeat(512 * 1024);
  assert.throws(() => toConfigMap(sampleService('cow', { definition: { script } }), objectStore), {
    code: 'too-large',
    message: /put the script into the image/,
  });
});

test('definition of a Go manager: read with or without quotes, in its order, with unknown keys', () => {
  const { service, version } = fromConfigMap(FROM_GO);
  const { definition } = service;
  assert.equal(version, '4711');
  assert.equal(service.uid, '0b7b4a5e-6f7c-4f4e-9a55-3f1f6f5d2a10', 'the uid of the object');
  assert.equal(service.owner, '62bb11b40398f73778b66f344d282242debb8ee3ebb106717a123ca213162926@egi.eu');
  assert.equal(service.ownerName, 'Jose_Los');
  assert.equal(service.namespace, 'oscar-svc-62bb11b4');
  assert.equal(service.token.reveal(), '9f'.repeat(32));
  assert.equal(definition.name, 'plants');
  assert.equal(definition.cpu, '1.0');
  assert.equal(definition.memory, '1Gi');
  assert.equal(definition.script, '#!/bin/bash\necho "plants"\n');
  assert.deepEqual(definition.environment.variables, { LEVEL: '1.50', VERBOSE: 'true', GREETING: 'hello: world' });
  assert.deepEqual(definition.input, [{ storage_provider: 'minio', path: 'plants/in' }]);
  assert.deepEqual(definition.output, [
    { storage_provider: 'minio.default', path: 'plants/out', suffix: ['txt', '10'] },
  ]);
  assert.deepEqual(definition.labels, { team: 'green' });
  assert.deepEqual(definition.annotations, {});
  assert.equal(definition.visibility, 'restricted');
  assert.deepEqual(definition.allowed_users, ['bob@egi.eu']);
});

test('definition of a Go manager: secrets in clear text are not part of the result', () => {
  const { definition } = fromConfigMap(FROM_GO).service;
  assert.deepEqual(definition.environment.secrets, { API_KEY: '' });
  assert.equal(definition.clusters?.['b']?.auth_password, '');
  assert.deepEqual(definition.storage_providers, {
    s3: { far: { access_key: 'hidden', secret_key: 'hidden', region: 'eu-west-1' } },
  });
  assert.doesNotMatch(JSON.stringify(definition), /hush/);
});

test('definition of a Go manager: writing it again does not change the service', () => {
  const { service } = fromConfigMap(FROM_GO);
  assert.deepEqual(revealed(roundTrip(service).service), revealed(service));
});

test('definition: an invalid visibility counts as private (S11)', () => {
  const data = { 'function_config.yaml': 'name: x\nvisibility: Private\n', 'script.sh': '' };
  assert.equal(fromConfigMap({ ...FROM_GO, data }).service.definition.visibility, 'private');
});

test('definition: missing keys get their defaults', () => {
  const data = { 'function_config.yaml': 'name: plants\nimage: x\n', 'script.sh': 'echo' };
  const { definition, owner, ownerName } = fromConfigMap({ ...FROM_GO, data }).service;
  assert.equal(definition.memory, '256Mi');
  assert.equal(definition.log_level, 'INFO');
  assert.deepEqual({ owner, ownerName }, { owner: '', ownerName: '' });
});

for (const [name, yaml] of Object.entries({ 'no YAML': 'a: [', 'no map': '- a', nothing: '' })) {
  test(`definition: a document that is ${name} is damaged, and the message names the ConfigMap`, () => {
    assert.throws(() => fromConfigMap({ ...FROM_GO, data: { 'function_config.yaml': yaml } }), {
      code: 'damaged',
      message: /ConfigMap plants in namespace oscar-svc-62bb11b4 does not define a service/,
    });
  });
}

test('definition: a ConfigMap that only has the label does not define a service', () => {
  assert.equal(isDefinition(FROM_GO), true);
  assert.equal(isDefinition({ ...FROM_GO, data: { other: '' } }), false);
  assert.equal(isDefinition({ ...FROM_GO, metadata: { ...FROM_GO.metadata, name: 'another' } }), false);
});
