import assert from 'node:assert/strict';
import { test } from 'node:test';
import { violations } from './import-rules.ts';

/** Files under `src` with what they import. */
type Tree = Record<string, string[]>;

function broken(tree: Tree): string[] {
  const imports = Object.entries(tree).map(([file, list]) => {
    return [`src/${file}`, list.map((specifier) => ({ specifier, typeOnly: false }))] as const;
  });
  return violations(new Map(imports)).map(({ rule }) => rule);
}

const allowed: { name: string; tree: Tree }[] = [
  { name: 'every file may import packages', tree: { 'lib/a.ts': ['node:fs', 'yaml'] } },
  {
    name: 'a layer may import those below it, by their doors',
    tree: {
      'model/service/a.ts': ['../../lib/secret.ts'],
      'model/snapshot.ts': ['../lib/secret.ts'],
      'config/read.ts': ['../lib/secret.ts', '../model/service/index.ts'],
      'ports/store.ts': ['../model/service/index.ts', '../model/snapshot.ts'],
      'jobs/intake/a.ts': ['../../ports/index.ts', '../../services/index.ts', '../../config/index.ts'],
      'delegation/origin/a.ts': ['../policies/index.ts', '../../peers/index.ts'],
      'http/routes/a.ts': ['../../jobs/index.ts', '../../config/index.ts', '../errors.ts'],
      'manager/a.ts': ['../http/index.ts', '../adapters/sqlite/index.ts', '../s3-server/index.ts'],
      'cli/serve.ts': ['../manager/index.ts', '../staging/index.ts'],
      'main.ts': ['./cli/command-line.ts'],
    },
  },
  {
    name: 'an adapter may import ports, staging and the S3 server',
    tree: { 'adapters/sqlite/a.ts': ['../../ports/index.ts', '../../staging/index.ts', '../../s3-server/index.ts'] },
  },
  {
    name: 'tests may import anything',
    tree: {
      'ports/conformance/runner.conformance.ts': ['../../adapters/sqlite/a.ts', '../../http/server.ts'],
      'jobs/a.test.ts': ['../adapters/sqlite/database.ts', '../../test/support/x.ts'],
      'adapters/sqlite/crash.child.ts': ['../../cli/serve.ts'],
    },
  },
  { name: 'package.json may be imported', tree: { 'lib/a.ts': ['../../package.json'] } },
  {
    name: 'index.ts and the HTTP server put the sub-folders together',
    tree: {
      'http/server.ts': ['./routes/a.ts'],
      'http/routes/a.ts': ['../errors.ts'],
      'jobs/index.ts': ['./views/a.ts'],
      'jobs/views/a.ts': ['../jobs.ts'],
      'jobs/jobs.ts': [],
    },
  },
];
for (const { name, tree } of allowed) test(`import rules: ${name}`, () => assert.deepEqual(broken(tree), []));

const refused: { name: string; tree: Tree; rule: RegExp }[] = [
  { name: 'lib imports nothing of ours', tree: { 'lib/a.ts': ['../model/b.ts'] }, rule: /^lib is below model/ },
  { name: 'model imports no config', tree: { 'model/a.ts': ['../config/index.ts'] }, rule: /^config is not for model/ },
  { name: 'config imports no ports', tree: { 'config/a.ts': ['../ports/index.ts'] }, rule: /^config imports only/ },
  { name: 'ports import no core', tree: { 'ports/a.ts': ['../jobs/index.ts'] }, rule: /^ports is below jobs/ },
  { name: 'jobs know no federation', tree: { 'jobs/a.ts': ['../federation/index.ts'] }, rule: /^jobs is below/ },
  { name: 'federation knows no delegation', tree: { 'federation/a.ts': ['../delegation/index.ts'] }, rule: /is below/ },
  {
    name: 'the core imports no adapter',
    tree: { 'jobs/a.ts': ['../adapters/sqlite/index.ts'] },
    rule: /is not for jobs/,
  },
  {
    name: 'an adapter imports no core',
    tree: { 'adapters/a.ts': ['../jobs/index.ts'] },
    rule: /^adapters imports only/,
  },
  { name: 'staging imports no ports', tree: { 'staging/a.ts': ['../ports/index.ts'] }, rule: /^staging imports only/ },
  {
    name: 'the S3 server stands alone',
    tree: { 's3-server/a.ts': ['../identity/index.ts'] },
    rule: /^s3-server imports/,
  },
  {
    name: 'nothing imports http but manager and cli',
    tree: { 'delegation/a.ts': ['../http/index.ts'] },
    rule: /below http/,
  },
  {
    name: 'nothing imports cli but main.ts',
    tree: { 'manager/a.ts': ['../cli/command-line.ts'] },
    rule: /^manager is below cli/,
  },
  {
    name: 'a folder is entered by its door',
    tree: { 'jobs/a.ts': ['../buckets/presign.ts'] },
    rule: /through its index/,
  },
  {
    name: 'a door further down is none',
    tree: { 'http/a.ts': ['../delegation/policies/index.ts'] },
    rule: /src\/delegation is/,
  },
  {
    name: 'policies have a door of their own',
    tree: { 'delegation/a.ts': ['./policies/topsis.ts'] },
    rule: /policies is/,
  },
  { name: 'a new folder needs a layer', tree: { 'volumes/a.ts': ['../lib/secret.ts'] }, rule: /has no layer yet/ },
  { name: 'code imports no test', tree: { 'jobs/a.ts': ['./b.fixture.ts'] }, rule: /^only tests import tests/ },
  {
    name: 'code imports no test helper',
    tree: { 'jobs/a.ts': ['../../test/support/x.ts'] },
    rule: /^only tests import from/,
  },
  { name: 'src stands alone', tree: { 'jobs/a.ts': ['../../tools/x.ts'] }, rule: /^src imports nothing from outside/ },
  {
    name: 'sub-folders have an order',
    tree: {
      'jobs/intake/a.ts': ['../scheduler/b.ts'],
      'jobs/scheduler/b.ts': ['../intake/c.ts'],
      'jobs/intake/c.ts': [],
    },
    rule: /^a cycle: src\/jobs\/intake → src\/jobs\/scheduler \(by/,
  },
  {
    name: 'the root of a folder and its sub-folders have an order',
    tree: { 'jobs/jobs.ts': ['./attempt/a.ts'], 'jobs/attempt/a.ts': ['../errors.ts'] },
    rule: /^a cycle: src\/jobs → src\/jobs\/attempt/,
  },
];
for (const { name, tree, rule } of refused) {
  test(`import rules: ${name}`, () => {
    const [first = ''] = broken(tree);
    assert.match(first, rule);
  });
}
