import * as fc from 'fast-check';
import { POLICY_NAMES } from './federation-options.ts';

/** Valid request bodies of every shape, for property tests. */

const words = fc.stringMatching(/^[a-z][a-z0-9]{2,8}$/);
const anyText = fc.string({ unit: 'grapheme', maxLength: 12 }).map((text) => text.replaceAll('\0', ''));
const map = <T>(values: fc.Arbitrary<T>) => fc.dictionary(words, values, { maxKeys: 3 });
const maybe = <T extends object>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }, required: (keyof T)[] = []) =>
  fc.record(model, { requiredKeys: required as never[] });

const provider = fc.constantFrom('minio', 'minio.default', 'MinIO.default', 's3.one', 'webdav.two');
const path = fc.tuple(words, words).map(([bucket, folder]) => `${bucket}/${folder}`);
const storageIO = maybe(
  {
    storage_provider: provider,
    path,
    suffix: fc.array(words, { maxLength: 2 }),
    prefix: fc.array(words, { maxLength: 2 }),
  },
  ['storage_provider', 'path'],
);

const member = maybe(
  {
    type: fc.constantFrom('oscar', 'Oscar'),
    cluster_id: words,
    service_name: words,
    priority: fc.nat(200),
    ssl_verify: fc.boolean(),
    headers: map(anyText),
  },
  ['cluster_id', 'service_name'],
);

const federation = maybe({
  group_id: words,
  topology: fc.constantFrom('none', 'star', 'Tree', 'MESH', ''),
  delegation: fc.oneof(
    fc.constantFrom(...POLICY_NAMES, 'Random', ''),
    fc.record({ mode: fc.constantFrom('random', 'static'), weights: map(fc.nat(10)) }),
  ),
  rescheduler_threshold: fc.nat(100),
  members: fc.uniqueArray(member, { maxLength: 3, selector: (item) => `${item.cluster_id}/${item.service_name}` }),
  deployment: fc.constantFrom('transactional', 'best-effort'),
  delegate_when: fc.constantFrom('saturated', 'always'),
  outputs: fc.constantFrom('replace'),
  self: maybe({ priority: fc.nat(5), weight: fc.nat(5) }),
});

export const serviceBodies: fc.Arbitrary<Record<string, unknown>> = maybe(
  {
    name: words,
    image: words,
    script: anyText.map((text) => `#!/bin/sh\r\n${text}`),
    cluster_id: words,
    memory: fc.constantFrom('1Gi', '500M', 268_435_456, ''),
    cpu: fc.constantFrom('1', '500m', 0.5, 2, ''),
    enable_gpu: fc.boolean(),
    alpine: fc.boolean(),
    file_stage_in: fc.boolean(),
    synchronous: maybe({ min_scale: fc.nat(3), max_scale: fc.nat(3) }),
    federation,
    log_level: fc.constantFrom('debug', 'INFO', ''),
    input: fc.array(storageIO, { maxLength: 2 }),
    output: fc.array(storageIO, { maxLength: 2 }),
    image_pull_secrets: fc.array(words, { maxLength: 2 }),
    expose: maybe({ api_port: fc.oneof(fc.nat(9), fc.array(fc.nat(9), { maxLength: 2 })), nodePort: fc.constant(0) }),
    environment: maybe({ variables: map(anyText), secrets: map(anyText) }),
    annotations: map(anyText),
    labels: map(words),
    vo: fc.constantFrom('', '/oscar', 'a b'),
    storage_providers: maybe({
      minio: map(
        maybe({ endpoint: words, verify: fc.boolean(), access_key: anyText, secret_key: anyText, region: words }),
      ),
      s3: map(maybe({ access_key: anyText, secret_key: anyText, region: words })),
      webdav: map(maybe({ hostname: words, login: words, password: anyText })),
    }),
    clusters: map(maybe({ endpoint: words, auth_user: words, auth_password: anyText, ssl_verify: fc.boolean() })),
    visibility: fc.constantFrom('private', 'restricted', 'public', ''),
    allowed_users: fc.array(fc.constantFrom('alice', ' bob', 'carol', ''), { maxLength: 4 }),
    isolation_level: fc.constantFrom('', 'USER', 'service'),
  },
  ['name', 'image', 'script'],
);
