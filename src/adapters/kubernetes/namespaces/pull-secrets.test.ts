import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { FakeApi } from '../runner/fake-api.fixture.ts';
import { Namespaces } from './namespaces.ts';
import { PullSecrets } from './pull-secrets.ts';

const MODERN = 'kubernetes.io/dockerconfigjson';
const NEVER = new AbortController().signal;

class Bench {
  readonly server = new FakeApi();
  readonly problems: unknown[] = [];

  /** As after a start with these settings. */
  open(names: readonly string[] = ['registry'], manager = 'oscar'): PullSecrets {
    return new PullSecrets(this.server.api, { manager, names, report: (problem) => this.problems.push(problem) });
  }

  async give(data: Record<string, string>, type = MODERN): Promise<void> {
    const there = await this.server.get(SECRET, { namespace: 'oscar', name: 'registry' });
    if (there) await this.server.delete(SECRET, { namespace: 'oscar', name: 'registry' });
    const metadata = { name: 'registry', namespace: 'oscar' };
    await this.server.post(SECRET, 'oscar', { metadata, type, data });
  }

  /** What is in users' namespaces, by namespace. */
  copies(): Map<string, Stored<SecretObject>[]> {
    const all = this.server.all('secrets') as Stored<SecretObject>[];
    return Map.groupBy(
      all.filter(({ metadata }) => metadata.namespace !== 'oscar'),
      ({ metadata }) => metadata.namespace ?? '',
    );
  }

  data(namespace: string): unknown {
    return this.copies().get(namespace)?.[0]?.data;
  }
}

test('pull secrets: a new namespace gets one copy, with nothing but the key that the kubelet reads', async () => {
  const bench = new Bench();
  await bench.give({ '.dockerconfigjson': 'e30=', note: 'bXk=' });
  const pullSecrets = bench.open();
  const options = { manager: 'oscar', services: 'oscar-svc', controllerServiceAccount: 'oscar-sa', closedNetworks: [] };
  const without = { knative: false, kueue: false };
  const namespaces = new Namespaces(bench.server.api, { ...options, ...without, pullSecrets });
  await namespaces.ensureNamespace('alice', 'oscar-svc-alice');
  await namespaces.ensureNamespace('cluster_admin', 'oscar-svc');
  assert.deepEqual([...bench.copies().keys()], ['oscar-svc-alice', 'oscar-svc']);
  for (const [copy] of bench.copies().values()) {
    assert.deepEqual([copy?.metadata.name], pullSecrets.copies);
    assert.match(copy?.metadata.name ?? '', /^oscar-pull-[0-9a-f]{40}$/);
    assert.equal(copy?.metadata.labels?.['app.kubernetes.io/managed-by'], 'oscar');
    assert.deepEqual([copy?.type, copy?.data], [MODERN, { '.dockerconfigjson': 'e30=' }]);
  }
  const before = bench.server.writes.length;
  await bench.open().syncNamespace('oscar-svc-alice');
  assert.equal(bench.server.writes.length, before);
});

test('pull secrets: a changed credential is copied to all namespaces with services or earlier copies', async () => {
  const bench = new Bench();
  await bench.give({ '.dockerconfigjson': 'b2xk' });
  const pullSecrets = bench.open();
  await pullSecrets.syncNamespace('oscar-svc-empty');
  await pullSecrets.syncAll(['oscar-svc'], NEVER);
  await bench.give({ '.dockerconfigjson': 'bmV3' });
  await pullSecrets.syncAll(['oscar-svc', 'oscar-svc-bob'], NEVER);
  for (const namespace of ['oscar-svc', 'oscar-svc-bob', 'oscar-svc-empty'])
    assert.deepEqual(bench.data(namespace), { '.dockerconfigjson': 'bmV3' }, namespace);
});

test('pull secrets: a Secret of another type replaces the copy', async () => {
  const bench = new Bench();
  await bench.give({ '.dockercfg': 'e30=' }, 'kubernetes.io/dockercfg');
  const pullSecrets = bench.open();
  await pullSecrets.syncNamespace('ns');
  await bench.give({ '.dockerconfigjson': 'e30=' });
  await pullSecrets.syncNamespace('ns');
  assert.equal(bench.copies().get('ns')?.length, 1);
  assert.deepEqual(bench.copies().get('ns')?.[0]?.type, MODERN);
});

test('pull secrets: a Secret that is no registry credential is not copied, and reported once', async () => {
  const bench = new Bench();
  await bench.give({ OSCAR_PASSWORD: 'cA==' }, 'Opaque');
  const pullSecrets = bench.open();
  await pullSecrets.syncNamespace('ns');
  await pullSecrets.syncAll(['ns'], NEVER);
  assert.deepEqual(bench.copies().size, 0);
  assert.equal(bench.problems.length, 1);
  assert.match(String(bench.problems[0]), /Secret registry in namespace oscar.* is of type Opaque and is not copied/);
});

test('pull secrets: a missing Secret is reported, and its copies stay', async () => {
  const bench = new Bench();
  await bench.give({ '.dockerconfigjson': 'e30=' });
  await bench.open().syncNamespace('ns');
  await bench.server.delete(SECRET, { namespace: 'oscar', name: 'registry' });
  await bench.open().syncAll(['ns'], NEVER);
  assert.match(String(bench.problems), /Secret registry in namespace oscar.* does not exist/);
  assert.deepEqual(bench.data('ns'), { '.dockerconfigjson': 'e30=' });
});

test('pull secrets: copies that the settings no longer name are removed, those of another manager stay', async () => {
  const bench = new Bench();
  await bench.give({ '.dockerconfigjson': 'e30=' });
  await bench.open().syncNamespace('ns');
  await bench.server.post(SECRET, 'staging', {
    metadata: { name: 'registry', namespace: 'staging' },
    type: MODERN,
    data: { '.dockerconfigjson': 'e30=' },
  });
  const others = bench.open(['registry'], 'staging');
  await others.syncNamespace('ns');
  assert.equal(bench.copies().get('ns')?.length, 2);
  await bench.open([]).syncAll([], NEVER);
  assert.deepEqual(
    bench
      .copies()
      .get('ns')
      ?.map(({ metadata }) => metadata.name),
    others.copies,
  );
});

test('pull secrets: a foreign Secret of that name is not changed, and reported', async () => {
  const bench = new Bench();
  await bench.give({ '.dockerconfigjson': 'e30=' });
  const pullSecrets = bench.open();
  const metadata = { name: pullSecrets.copies[0] ?? '', namespace: 'ns' };
  await bench.server.post(SECRET, 'ns', { metadata, data: { mine: 'bQ==' } });
  await pullSecrets.syncNamespace('ns');
  assert.deepEqual(bench.data('ns'), { mine: 'bQ==' });
  assert.match(String(bench.problems), /in namespace ns is in the way .*: remove it/);
});
