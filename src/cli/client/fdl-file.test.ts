import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import * as fc from 'fast-check';
import { stringify } from 'yaml';
import { serviceBodies } from '../../model/service/service.arbitrary.ts';
import { ClientError } from './errors.ts';
import { readFdlFile, unknownKeys } from './fdl-file.ts';
import type { Terminal } from './terminal.ts';

const directory = mkdtempSync(join(tmpdir(), 'oscar-fdl-'));
after(() => rmSync(directory, { recursive: true }));
writeFileSync(join(directory, 'script.sh'), 'echo\n');

function read(text: string) {
  const file = join(directory, 'x.yaml');
  writeFileSync(file, text);
  const warnings: string[] = [];
  const terminal = { warn: (line: string) => warnings.push(line.replace(`${directory}/`, '')) };
  return { services: readFdlFile(file, terminal as unknown as Terminal), warnings };
}

const functions = (...services: string[]) =>
  `functions:\n  oscar:\n${services.map((each) => `    - ${each}\n`).join('')}`;

const problems = [
  { name: 'a tab', text: 'functions:\n\toscar: []\n', says: /x\.yaml:2:1: YAML does not allow tabs/ },
  {
    name: 'a missing script',
    text: functions('{name: a, image: b, script: no.sh}'),
    says: /x\.yaml:3:.*script "no\.sh" cannot be read: ENOENT/,
  },
  {
    name: 'two services of one name',
    text: functions('{name: a, image: b, script: script.sh}', '{name: a, image: c, script: script.sh}'),
    says: /x\.yaml:4: "a" is already defined in line 3/,
  },
  {
    name: 'a service without a name',
    text: functions('{image: b, script: script.sh}'),
    says: /x\.yaml:3: name is required/,
  },
];
for (const { name, text, says } of problems) {
  test(`fdl: ${name} is an error that names the line`, () => {
    assert.throws(
      () => read(text),
      (error) => error instanceof ClientError && error.code === 'bad-input' && says.test(error.message),
    );
  });
}

test('fdl: the same name on two clusters is allowed', () => {
  const text = functions('one: {name: a, image: b, script: script.sh}', 'two: {name: a, image: b, script: script.sh}');
  assert.deepEqual(
    read(text).services.map(({ clusterId, name }) => [clusterId, name]),
    [
      ['one', 'a'],
      ['two', 'a'],
    ],
  );
});

describe('fdl: unknown keys', () => {
  test('are named with line, column and the nearest that has', () => {
    const text = `functions:
  oscar:
    - name: a
      image: b
      script: script.sh
      memroy: 1Gi
      input:
        - storage_provider: minio.default
          pth: a/in
      federation:
        topolgy: mesh
        members:
          - clusterid: x
storage_provider: {}
`;
    assert.deepEqual(read(text).warnings, [
      'x.yaml:6:7: "functions.oscar[0].memroy" is unknown and has no effect, did you mean memory?',
      'x.yaml:9:11: "functions.oscar[0].input[0].pth" is unknown and has no effect, did you mean path?',
      'x.yaml:11:9: "functions.oscar[0].federation.topolgy" is unknown and has no effect, did you mean topology?',
      'x.yaml:13:13: "functions.oscar[0].federation.members[0].clusterid" is unknown and has no effect, did you mean cluster_id?',
      'x.yaml:14:1: "storage_provider" is unknown and has no effect, did you mean storage_providers?',
    ]);
  });

  test('are found below the id of a cluster too', () => {
    const { warnings } = read(functions('one: {name: a, image: b, script: script.sh, imgae: c}'));
    assert.match(warnings[0] ?? '', /oscar\[0\]\.one\.imgae" .*did you mean image\?/);
  });

  test('nothing that a manager reads is among them', () => {
    fc.assert(
      fc.property(serviceBodies, fc.boolean(), (body, byCluster) => {
        const service = byCluster ? { somewhere: body } : body;
        assert.deepEqual(unknownKeys('x', stringify({ functions: { oscar: [service] } })), []);
      }),
      { numRuns: 60 },
    );
  });

  test('names that people choose are not among them', () => {
    const text = functions(
      '{name: a, environment: {Variables: {ANY: x}}, labels: {any: x}, clusters: {any: {endpoint: x}}}',
    );
    assert.deepEqual(unknownKeys('x', text), []);
  });
});
