import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { Secret } from '../../lib/secret.ts';
import { ownedBy, present } from './present.ts';
import { readDefinition } from './read.ts';
import { serviceBodies } from './service.arbitrary.ts';
import { aService } from './service.fixture.ts';
import type { Service } from './service.ts';

const store = { endpoint: 'http://minio.minio:9000', verify: true, region: 'us-east-1' };
const shown = (service: Service) => JSON.stringify(present(service, { store, showToken: true }));

test('present: a minimal service is byte-equal to the answer of the Go manager', () => {
  const service = aService({
    image: 'ghcr.io/x/y',
    script: '#!/bin/sh\n...',
    input: [{ storage_provider: 'minio.default', path: 'demo/in' }],
    output: [{ storage_provider: 'minio.default', path: 'demo/out' }],
  });
  assert.equal(
    shown(service),
    '{"name":"demo","cluster_id":"","memory":"256Mi","cpu":"0.2","total_memory":"","total_cpu":"","ephemeral_storage_request":"",' +
      '"enable_gpu":false,"enable_sgx":false,"image_prefetch":false,"synchronous":{"min_scale":0,"max_scale":0},"log_level":"INFO",' +
      `"image":"ghcr.io/x/y","alpine":false,"token":"${'ab'.repeat(32)}","file_stage_in":false,` +
      '"input":[{"storage_provider":"minio.default","path":"demo/in"}],"output":[{"storage_provider":"minio.default","path":"demo/out"}],' +
      '"script":"#!/bin/sh\\n...","expose":{"min_scale":0,"max_scale":0,"cpu_threshold":0,"rewrite_target":false,"default_command":false,"set_auth":false,"health_path":""},' +
      '"environment":{"variables":{},"secrets":{}},"annotations":{},"vo":"",' +
      '"labels":{"applicationId":"demo","oscar.grycap/user-service":"true","oscar_service":"demo","owner_name":"oscar","queue":"root.oscar-queue.demo"},' +
      '"storage_providers":{"minio":{"default":{"endpoint":"http://minio.minio:9000","verify":true,"access_key":"hidden","secret_key":"hidden","region":"us-east-1"}}},' +
      '"owner":"cluster_admin","namespace":"oscar-svc","interlink_node_name":"","visibility":"private","allowed_users":[],"isolation_level":"","bucket_list":[],' +
      '"mount":{"storage_provider":"","path":""},"volume_status":{"enabled":false}}',
  );
});

test('service view: the token is shown only to users who may invoke', () => {
  const document = present(aService(), { store, showToken: false }) as { token: string };
  assert.equal(document.token, '');
});

test('present: with isolation USER the owner is among the allowed users, and each other user has a bucket', () => {
  const alice = '00000001-alice-4000-8000-000000000001';
  const bob = '00000002-bob-4000-8000-000000000002';
  const service = aService(
    {
      visibility: 'restricted',
      isolation_level: 'USER',
      allowed_users: [bob],
      input: [{ storage_provider: 'minio.default', path: 'demo/in' }],
      output: [{ storage_provider: 'minio.default', path: 'demo/out' }],
    },
    { owner: alice },
  );
  const document = present(service, { store, showToken: true }) as Record<string, unknown>;
  assert.deepEqual(document['allowed_users'], [bob, alice]);
  assert.deepEqual(document['bucket_list'], ['demo-00000002-b']);
  assert.equal((document['labels'] as Record<string, string>)['uid'], '00000001-a');
});

test('present: additional federation keys follow those of the Go manager, and only if they are set', () => {
  const federation = {
    topology: 'mesh',
    delegation: { mode: 'random', weights: { b: 2 } },
    rescheduler_threshold: 9,
    self: {},
  };
  const document = present(aService({ federation }), { store, showToken: true }) as Record<string, unknown>;
  assert.equal(
    JSON.stringify(document['federation']),
    '{"group_id":"demo","topology":"mesh","delegation":"random","rescheduler_threshold":9,"weights":{"b":2},"self":{}}',
  );
});

describe('no secret is ever shown', () => {
  const marker = 'MARKER-of-a-secret';
  const body = {
    environment: { secrets: { KEY: marker } },
    clusters: { b: { endpoint: 'https://b.example', auth_user: 'u', auth_password: marker } },
    storage_providers: {
      minio: { x: { endpoint: 'https://x.example', access_key: marker, secret_key: marker } },
      s3: { y: { access_key: marker, secret_key: marker } },
      onedata: { z: { token: marker } },
      webdav: { w: { hostname: 'w', login: 'u', password: marker } },
      rucio: { r: { refresh_token: marker } },
    },
    federation: { members: [{ cluster_id: 'b', service_name: 'demo-b', headers: { 'X-Key': marker } }] },
  };
  test('in the stored definition or in the answer', () => {
    const service = aService(body);
    assert.ok(!JSON.stringify(service).includes(marker));
    assert.ok(!shown(service).includes(marker));
    assert.ok(shown(service).includes('"webdav":{"w":{"hostname":"w","login":"u","password":"hidden"}}'));
  });
  test('and each was read as a secret', () => {
    const { secrets } = readDefinition({ name: 'demo', image: 'x', script: 'x', ...body });
    const values = [...Object.values(secrets.environment), ...Object.values(secrets.credentials)];
    assert.equal(values.length, 10);
    for (const value of values) assert.equal(value.reveal(), marker);
  });
});

test('present: reading the answer gives the same definition, for every service', () => {
  fc.assert(
    fc.property(serviceBodies, fc.constantFrom('cluster_admin', 'alice', 'bob'), (body, owner) => {
      const definition = ownedBy(readDefinition(body).definition, owner);
      const service: Service = { ...aService(), definition, owner, token: new Secret('t') };
      const again = readDefinition(JSON.parse(shown(service))).definition;
      assert.deepEqual(ownedBy(again, owner, definition), definition);
      assert.equal(shown({ ...service, definition: ownedBy(again, owner, definition) }), shown(service));
    }),
  );
});
