import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readFdl } from './fdl.ts';
import { readDefinition } from './read.ts';

const scripts: Record<string, string> = { 'dir/script.sh': '#!/bin/sh\necho\n', '/abs/script.sh': 'absolute' };

function read(text: string) {
  return readFdl({
    name: 'dir/demo.yaml',
    text,
    readScript(path) {
      const script = scripts[path];
      if (script === undefined) throw new Error(`no such file: ${path}`);
      return script;
    },
  });
}

test('fdl: reads services by cluster, as oscar-cli writes them', () => {
  const [first, second] = read(`
functions:
  oscar:
    - cluster-a:
        name: one
        image: ubuntu
        script: script.sh
        cpu: 1
        storage_providers: {webdav: {w: {hostname: dav}}}
    - cluster-b:
        name: two
        image: ubuntu
        script: /abs/script.sh
clusters:
  cluster-b: {endpoint: https://b.example}
storage_providers:
  s3: {x: {region: eu-1}}
`);
  assert.equal(first?.clusterId, 'cluster-a');
  assert.equal(first?.line, 5);
  assert.deepEqual(first?.body, {
    name: 'one',
    image: 'ubuntu',
    script: '#!/bin/sh\necho\n',
    cpu: 1,
    cluster_id: 'cluster-a',
    clusters: { 'cluster-b': { endpoint: 'https://b.example' } },
    storage_providers: { s3: { x: { region: 'eu-1' } }, webdav: { w: { hostname: 'dav' } } },
  });
  assert.equal(second?.clusterId, 'cluster-b');
  assert.equal(second?.body['script'], 'absolute');
});

test('fdl: reads services by name, as the quickstart writes them', () => {
  const [service] = read(`
functions:
  oscar:
    - name: grayifyr0
      image: ghcr.io/grycap/imagemagick
      cpu: "0.5"
      memory: 0.5Gi
      script: script.sh
      federation:
        topology: mesh
        delegation: random
        members:
          - {type: oscar, cluster_id: oscar-cluster-a, service_name: grayifyr1}
      input:
        - {storage_provider: minio.default, path: grayifyr0/in}
`);
  assert.equal(service?.clusterId, undefined);
  const { definition } = readDefinition(service?.body);
  assert.equal(definition.memory, '0.5Gi');
  assert.equal(definition.federation?.members?.[0]?.service_name, 'grayifyr1');
});

describe('fdl: an error names the file, line and column', () => {
  const cases: [string, string, RegExp][] = [
    ['broken YAML', 'functions:\n  oscar: [', /^dir\/demo\.yaml:2:\d+: /],
    ['a repeated key', 'functions:\n  oscar: []\nfunctions: {}\n', /^dir\/demo\.yaml:3:1: .*unique/],
    ['no functions', 'services: []\n', /^dir\/demo\.yaml:1:1: functions\.oscar must be a list/],
    ['an empty file', '', /functions\.oscar must be a list/],
    [
      'functions that are not a list',
      'functions:\n  oscar: {a: 1}\n',
      /^dir\/demo\.yaml:2:10: functions\.oscar must be a list/,
    ],
    [
      'a service that is not a map',
      'functions:\n  oscar:\n    - hello\n',
      /^dir\/demo\.yaml:3:7: a service must be a map/,
    ],
    [
      'no script',
      'functions:\n  oscar:\n    - name: x\n      image: y\n',
      /^dir\/demo\.yaml:3:7: script must name a file/,
    ],
    [
      'a missing script file',
      'functions:\n  oscar:\n    - name: x\n      script: gone.sh\n',
      /^dir\/demo\.yaml:4:15: script "gone\.sh" cannot be read: no such file: dir\/gone\.sh/,
    ],
    [
      'clusters that are not a map',
      'functions:\n  oscar: []\nclusters: 5\n',
      /^dir\/demo\.yaml:3:11: clusters must be a map/,
    ],
  ];
  for (const [name, text, message] of cases) {
    test(name, () => assert.throws(() => read(text), { code: 'invalid-fdl', message }));
  }
});
