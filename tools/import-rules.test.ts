import assert from 'node:assert/strict';
import { test } from 'node:test';
import { violations } from './import-rules.ts';

/** A tree of files under `src` with what they import; `type ` before an import of types. */
type Tree = Record<string, string[]>;

function broken(tree: Tree): string[] {
  const imports = Object.entries(tree).map(([file, list]) => {
    const read = list.map((text) => ({ specifier: text.replace(/^type /, ''), typeOnly: text.startsWith('type ') }));
    return [`src/${file}`, read] as const;
  });
  return violations(new Map(imports)).map(({ rule }) => rule);
}

const allowed: { name: string; tree: Tree }[] = [
  { name: 'packages are free to all', tree: { 'base/a.ts': ['node:fs', 'yaml'] } },
  { name: 'inside a folder anything goes', tree: { 'delegation/policy/a.ts': ['../offer.ts', './room.ts'] } },
  {
    name: 'each layer imports those below',
    tree: {
      'service/a.ts': ['../base/secret.ts'],
      'config.ts': ['./config/read.ts'],
      'config/read.ts': ['../base/secret.ts', '../service/names.ts'],
      'cluster/store.ts': ['../service/index.ts'],
      'jobs/a.ts': ['../cluster/store.ts', '../service/index.ts', '../storage/index.ts', 'type ../config.ts'],
      'http/routes/a.ts': ['../../jobs/index.ts', '../../config.ts', '../../cluster/version.ts'],
      'cli/serve.ts': ['../http/server.ts', '../cluster/local/index.ts', '../objectstore/index.ts', '../config.ts'],
      'main.ts': ['./cli/serve.ts'],
    },
  },
  {
    name: 'an adapter imports its port',
    tree: {
      'cluster/local/database/a.ts': ['../b.ts', '../../service-store.ts', '../../../base/secret.ts'],
      'storage/minio/a.ts': ['../object-store.ts'],
    },
  },
  {
    name: 'tests import what they need',
    tree: {
      'cluster/runner.conformance.ts': ['./local/a.ts', '../http/server.ts'],
      'jobs/a.test.ts': ['../cluster/local/database.ts', '../../tools/x.ts'],
      'cluster/local/crash.child.ts': ['../../cli/serve.ts'],
    },
  },
  { name: 'the version is read from package.json', tree: { 'http/a.ts': ['../../package.json'] } },
];
for (const { name, tree } of allowed) test(name, () => assert.deepEqual(broken(tree), []));

const refused: { name: string; tree: Tree; rule: RegExp }[] = [
  { name: 'base imports nothing of ours', tree: { 'base/a.ts': ['../service/b.ts'] }, rule: /^base imports nothing/ },
  {
    name: 'service knows no config',
    tree: { 'service/a.ts': ['type ../config.ts'] },
    rule: /^service imports only base/,
  },
  { name: 'config knows no ports', tree: { 'config/a.ts': ['../cluster/a.ts'] }, rule: /^config imports only/ },
  { name: 'a port knows no core', tree: { 'cluster/a.ts': ['type ../jobs/index.ts'] }, rule: /^the ports in cluster/ },
  { name: 'a port knows no adapter', tree: { 'cluster/a.ts': ['./local/index.ts'] }, rule: /^the ports in cluster/ },
  { name: 'the core goes through index.ts', tree: { 'jobs/a.ts': ['../storage/a.ts'] }, rule: /^the core imports/ },
  {
    name: 'an index.ts further down is no face',
    tree: { 'jobs/a.ts': ['../delegation/policy/index.ts'] },
    rule: /^the core/,
  },
  { name: 'the core takes only types of config', tree: { 'jobs/a.ts': ['../config.ts'] }, rule: /^the core imports/ },
  {
    name: 'the inside of config is its own',
    tree: { 'jobs/a.ts': ['type ../config/a.ts'] },
    rule: /^the core imports/,
  },
  {
    name: 'the core knows no adapter',
    tree: { 'jobs/a.ts': ['../cluster/local/index.ts'] },
    rule: /^the core imports/,
  },
  {
    name: 'a port owner knows no adapter of its own',
    tree: { 'storage/a.ts': ['./minio/index.ts'] },
    rule: /^the core/,
  },
  { name: 'the core knows no store', tree: { 'storage/a.ts': ['../objectstore/index.ts'] }, rule: /^the core imports/ },
  {
    name: 'an adapter knows no other',
    tree: { 'cluster/local/a.ts': ['../kubernetes/index.ts'] },
    rule: /^an adapter/,
  },
  {
    name: 'an adapter knows no other port',
    tree: { 'cluster/local/a.ts': ['../../storage/index.ts'] },
    rule: /^an adapter/,
  },
  {
    name: 'the store is a world of its own',
    tree: { 'objectstore/a.ts': ['../service/index.ts'] },
    rule: /^objectstore/,
  },
  { name: 'http knows no adapter', tree: { 'http/a.ts': ['../cluster/local/index.ts'] }, rule: /^http imports/ },
  { name: 'http goes through index.ts', tree: { 'http/a.ts': ['../jobs/submit.ts'] }, rule: /^http imports/ },
  { name: 'nobody imports http', tree: { 'jobs/a.ts': ['../http/index.ts'] }, rule: /^the core imports/ },
  { name: 'http does not import cli', tree: { 'http/a.ts': ['../cli/index.ts'] }, rule: /^http imports/ },
  { name: 'cli goes through index.ts', tree: { 'cli/a.ts': ['../cluster/local/a.ts'] }, rule: /^cli imports/ },
  {
    name: 'main.ts starts cli and nothing else',
    tree: { 'main.ts': ['./http/server.ts'] },
    rule: /^main\.ts imports only cli/,
  },
  { name: 'nobody imports main.ts', tree: { 'cli/a.ts': ['../main.ts'] }, rule: /^cli imports/ },
  { name: 'a new folder needs a layer', tree: { 'misc/a.ts': ['../base/b.ts'] }, rule: /^src\/misc has no layer yet/ },
  {
    name: 'only tests import tests',
    tree: { 'cluster/a.ts': ['./runner.conformance.ts'] },
    rule: /^only tests import tests/,
  },
  {
    name: 'src does not import test/',
    tree: { 'jobs/a.ts': ['../../test/x.ts'] },
    rule: /^only tests import from test/,
  },
  {
    name: 'src does not import tools',
    tree: { 'jobs/a.ts': ['../../tools/x.ts'] },
    rule: /^src imports nothing from outside/,
  },
];
for (const { name, tree, rule } of refused) {
  test(name, () => {
    const found = broken(tree);
    assert.equal(found.length, 1, found.join('\n'));
    assert.match(found[0] ?? '', rule);
  });
}

test('folders of the core do not import each other in a circle, not even types', () => {
  const tree = {
    'jobs/a.ts': ['../delegation/index.ts'],
    'delegation/b.ts': ['type ../federation/index.ts'],
    'federation/c.ts': ['../jobs/index.ts'],
    'identity/d.ts': ['../jobs/index.ts'],
  };
  assert.deepEqual(broken(tree), [
    'a cycle: jobs → delegation (by src/jobs/a.ts) → federation (by src/delegation/b.ts) → ' +
      'jobs (by src/federation/c.ts)',
  ]);
});

test('a test does not close a circle', () => {
  assert.deepEqual(broken({ 'jobs/a.ts': ['../storage/index.ts'], 'storage/b.test.ts': ['../jobs/index.ts'] }), []);
});
