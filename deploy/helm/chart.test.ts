import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { Check } from 'typebox/schema';
import { parse } from 'yaml';
import { controllerRules } from '../../src/adapters/kubernetes/namespaces/namespaces.ts';
import type { SettingKind } from '../../src/config/kinds/kind.ts';
import { providers } from '../../src/config/kinds/providers.ts';
import { secret } from '../../src/config/kinds/single.ts';
import { SETTINGS } from '../../src/config/settings.ts';
import { readPage } from '../../tools/check-docs-page.ts';

const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');
const values = parse(read('oscar/values.yaml')) as Record<string, unknown>;

/** Kinds of settings that contain secrets. */
const SECRET: readonly SettingKind<unknown>[] = [secret, providers];

interface Rule {
  readonly apiGroups: string[];
  readonly resources: string[];
  readonly verbs: string[];
}

/** Each right by itself: `batch/jobs create`. */
const rights = (rules: readonly Rule[]) =>
  rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) => resources.flatMap((resource) => verbs.map((verb) => `${group}/${resource} ${verb}`))),
  );

describe('the rights that the chart gives', () => {
  const { cluster, knative, kueue, networks, own } = parse(read('oscar/files/rights.yaml')) as Record<
    'cluster' | 'knative' | 'kueue' | 'networks' | 'own',
    Rule[]
  >;

  test('begin with all that the manager hands itself in users’ namespaces: it can give only what it has', () => {
    const none = { knative: false, kueue: false };
    const handed = controllerRules(none);
    const more = (settings: Partial<typeof none>) => controllerRules({ ...none, ...settings }).slice(handed.length);
    assert.deepEqual(rights(cluster.slice(0, handed.length)), rights(handed));
    assert.deepEqual(rights(knative), rights(more({ knative: true })));
    const queues = more({ kueue: true });
    assert.deepEqual(rights(kueue.slice(0, queues.length)), rights(queues));
  });

  test('name nothing twice, nothing as a whole, and nothing with which it could give itself more', () => {
    const all = [...rights(cluster), ...rights(knative), ...rights(kueue), ...rights(networks), ...rights(own)];
    assert.deepEqual(all, [...new Set(all)]);
    assert.deepEqual(
      all.filter((right) =>
        /\*| (escalate|bind|impersonate)$|clusterrole|nodes (create|update|patch|delete)/.test(right),
      ),
      [],
    );
  });
});

test('rights for Kueue are given for whatever the manager takes for true', () => {
  const [, isTrue = ''] =
    /regexMatch "([^"]+)" \(\$settings\.KUEUE_ENABLE/.exec(read('oscar/templates/rbac.yaml')) ?? [];
  const context = { files: read, valueOf: () => undefined };
  for (const word of ['1', 't', 'true', 'y', 'yes', 'on', '0', 'f', 'false', 'no'])
    for (const written of [word, word.toUpperCase(), `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`]) {
      const parsed = SETTINGS.kueueEnable.kind.parse(written, context);
      assert.equal(new RegExp(isTrue).test(written), 'value' in parsed && parsed.value, written);
    }
});

describe('the values', () => {
  const schema = JSON.parse(read('oscar/values.schema.json'));

  test('that come with the chart are valid, and misspelt ones are not', () => {
    assert.ok(Check(schema, values));
    assert.ok(!Check(schema, { ...values, replica: 3 }));
    assert.ok(!Check(schema, { ...values, oidc: { issuer: 'https://issuer.example' } }));
    assert.ok(!Check(schema, { ...values, ingress: { hosts: ['a.example'] } }));
  });

  test('that the page shows are valid', () => {
    const { blocks } = readPage(read('../../docs/kubernetes.md'));
    const shown = blocks.filter(({ info }) => info === 'yaml').map(({ text }) => parse(text));
    assert.ok(shown.length > 1);
    for (const each of shown) assert.ok(Check(schema, each), JSON.stringify(each));
  });

  test('of the Go manager’s chart may be taken as they are: there this one is text', () => {
    for (const TLSVerify of [true, false, 'true', 'false'])
      assert.ok(Check(schema, { ...values, minIO: { TLSVerify } }));
    assert.ok(!Check(schema, { ...values, minIO: { TLSVerify: 'yes' } }));
  });

  test('that the schema knows are those that are documented, at every level', () => {
    const compare = (described: Described, given: Record<string, unknown>, path: string) => {
      const { properties } = described.$ref ? schema.definitions[described.$ref.split('/').at(-1) ?? ''] : described;
      if (!properties) return;
      const known = Object.keys(properties).filter((key) => key !== 'global');
      assert.deepEqual(known.toSorted(), Object.keys(given).toSorted(), path);
      for (const [key, value] of Object.entries(given)) {
        const next = properties[key];
        if (next && isMap(value)) compare(next, value, `${path}.${key}`);
      }
    };
    compare(schema, values, 'values');
  });

  test('are all used: one that changes nothing would mislead', () => {
    const folder = new URL('oscar/templates/', import.meta.url);
    const templates = readdirSync(folder)
      .map((name) => readFileSync(new URL(name, folder), 'utf8'))
      .join('\n');
    const unused = Object.keys(values).filter((key) => !new RegExp(`\\.Values\\.${key}\\b`).test(templates));
    assert.deepEqual(unused, []);
  });
});

test('every setting that is secret is refused under config, and has a value that goes into the Secret', () => {
  const secrets = Object.values(SETTINGS).flatMap(({ name, kind }) => (SECRET.includes(kind) ? [name] : []));
  const places = [...read('oscar/templates/checks.yaml').matchAll(/^ {2}"([A-Z_]+)" "([A-Za-z.]+)"$/gm)];
  assert.deepEqual(places.map(([, name = '']) => name).toSorted(), secrets.toSorted());
  for (const [, name = '', value = ''] of places) {
    assert.match(read('oscar/templates/secret.yaml'), new RegExp(`^ {2}${name}: `, 'm'), name);
    // There it is kept; there a change of it starts new pods; there it is refused beside a Secret of the operator.
    for (const template of ['secret', 'deployment', 'checks'])
      assert.match(read(`oscar/templates/${template}.yaml`), new RegExp(`\\.Values\\.${value}\\b`), template);
  }
});

test('every setting that the chart writes is one that the manager knows', () => {
  const names = new Set(Object.values(SETTINGS).map(({ name }) => name));
  const written = [...read('oscar/templates/_helpers.tpl').matchAll(/"([A-Z][A-Z0-9_]{3,})"/g)].map(([, name]) => name);
  assert.ok(written.length > 15);
  assert.deepEqual(
    written.filter((name) => !names.has(name as never)),
    [],
  );
});

test('the chart installs the version of the manager that it comes with', () => {
  const { version } = JSON.parse(read('../../package.json'));
  assert.equal(parse(read('oscar/Chart.yaml')).appVersion, version);
});

interface Described {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Described>>;
}

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

test('the chart sends traffic to managers that are ready, and restarts only those that do not answer', () => {
  const deployment = readFileSync(new URL('./oscar/templates/deployment.yaml', import.meta.url), 'utf8');
  const probes = [...deployment.matchAll(/(\w+)Probe:\n\s+httpGet: \{ path: (\S+), port: http \}/g)];
  assert.deepEqual(
    probes.map(([, probe, path]) => [probe, path]),
    [
      ['startup', '/health'],
      ['liveness', '/health'],
      ['readiness', '/ready'],
    ],
  );
});
