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

/** As the server gives it back. */
function stored({ data = {}, metadata }: ConfigMap): Stored<ConfigMap> {
  return { data, metadata: { ...metadata, uid: 'uid-of-the-object', resourceVersion: '7' } };
}

const roundTrip = (service: Service) => fromConfigMap(stored(toConfigMap(service, objectStore)));

const yamlOf = (service: Service) => toConfigMap(service, objectStore).data?.['function_config.yaml'] ?? '';

test('a definition is a ConfigMap named and labelled like the service, with the script beside it', () => {
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

test('the document has the keys of the Go manager, in its order, and not those that are elsewhere or only shown', () => {
  const document: Record<string, unknown> = parse(yamlOf(sampleService('cow')));
  const elsewhere = ['script', 'namespace', 'volume_status', 'deployment'];
  const absentWhenEmpty = ['federation', 'image_pull_secrets', 'clusters', 'volume', 'kserve'];
  const expected = Object.keys(ServiceSchema.properties).filter(
    (key) => ![...elsewhere, ...absentWhenEmpty].includes(key),
  );
  assert.deepEqual(Object.keys(document), expected);
});

test('the document has the labels of the manager, the token in clear, and the keys of the store hidden', () => {
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

test('what YAML 1.1 would take for something else is a text to a Python reader too', () => {
  const variables = { A: 'yes', B: '1:30', C: '0x1F', D: '~', E: 'null', F: '1e3', on: 'off' };
  const yaml = yamlOf(sampleService('cow', { definition: { environment: { variables, secrets: {} } } }));
  assert.deepEqual(parse(yaml, { version: '1.1' }).environment.variables, variables);
  assert.deepEqual(parse(yaml).environment.variables, variables);
});

test('any definition comes back as it was', () => {
  const known = { uid: 'u', owner: 'alice', ownerName: 'Alice', namespace: 'oscar-svc-alice' };
  fc.assert(
    fc.property(serviceBodies, fc.string(), (body, token) => {
      const definition = ownedBy(readDefinition(body).definition, known.owner);
      const service = { ...known, definition, token: new Secret(token.replaceAll('\0', '').toWellFormed()) };
      assert.deepEqual(revealed(roundTrip(service).service), revealed(service));
    }),
  );
});

test('a definition over a mebibyte is refused before it is sent', () => {
  const script = 'é'.repeat(512 * 1024);
  assert.throws(() => toConfigMap(sampleService('cow', { definition: { script } }), objectStore), {
    code: 'too-large',
    message: /put the script into the image/,
  });
});

test('what a Go manager wrote is read: quoted or not, in its order, with keys that we do not know', () => {
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

test('no secret that a Go manager left in clear gets into a definition', () => {
  const { definition } = fromConfigMap(FROM_GO).service;
  assert.deepEqual(definition.environment.secrets, { API_KEY: '' });
  assert.equal(definition.clusters?.['b']?.auth_password, '');
  assert.deepEqual(definition.storage_providers, {
    s3: { far: { access_key: 'hidden', secret_key: 'hidden', region: 'eu-west-1' } },
  });
  assert.doesNotMatch(JSON.stringify(definition), /hush/);
});

test('a service of a Go manager can be written by us and is then the same', () => {
  const { service } = fromConfigMap(FROM_GO);
  assert.deepEqual(revealed(roundTrip(service).service), revealed(service));
});

test('a visibility that is none counts as private (S11)', () => {
  const data = { 'function_config.yaml': 'name: x\nvisibility: Private\n', 'script.sh': '' };
  assert.equal(fromConfigMap({ ...FROM_GO, data }).service.definition.visibility, 'private');
});

test('of a few keys the others are the defaults', () => {
  const data = { 'function_config.yaml': 'name: plants\nimage: x\n', 'script.sh': 'echo' };
  const { definition, owner, ownerName } = fromConfigMap({ ...FROM_GO, data }).service;
  assert.equal(definition.memory, '256Mi');
  assert.equal(definition.log_level, 'INFO');
  assert.deepEqual({ owner, ownerName }, { owner: '', ownerName: '' });
});

for (const [name, yaml] of Object.entries({ 'no YAML': 'a: [', 'no map': '- a', nothing: '' })) {
  test(`a document that is ${name} is damaged, and the message says which`, () => {
    assert.throws(() => fromConfigMap({ ...FROM_GO, data: { 'function_config.yaml': yaml } }), {
      code: 'damaged',
      message: /ConfigMap plants in namespace oscar-svc-62bb11b4 does not define a service/,
    });
  });
}

test('a ConfigMap that is only labelled like a service is none', () => {
  assert.equal(isDefinition(FROM_GO), true);
  assert.equal(isDefinition({ ...FROM_GO, data: { other: '' } }), false);
  assert.equal(isDefinition({ ...FROM_GO, metadata: { ...FROM_GO.metadata, name: 'another' } }), false);
});
