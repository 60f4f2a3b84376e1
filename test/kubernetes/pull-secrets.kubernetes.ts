import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { FROM_GO } from '../../src/adapters/kubernetes/stores/from-go.fixture.ts';
import { sampleService } from '../../src/ports/conformance/sample-service.ts';
import { created } from '../../src/ports/conformance/service-store-under-test.ts';
import { MANAGER_NAMESPACE } from './manager-rights.ts';
import { startTestbed } from './testbed.ts';

/**
 * The pull secrets of the manager's image in the namespaces of services, with the rights of a manager and real RBAC.
 */
const testbed = await startTestbed();
after(() => testbed.plane.stop());
beforeEach(async () => {
  await testbed.wipe();
  testbed.problems.length = 0;
});
const { admin } = testbed.plane;
const pullSecrets = ['registry'];

const pathOf = (namespace: string, name = '') => `/api/v1/namespaces/${namespace}/secrets/${name}`;

async function give(password: string, type = 'kubernetes.io/dockerconfigjson'): Promise<void> {
  const auths = { 'registry.example': { username: 'puller', password } };
  const data = type.endsWith('json')
    ? { '.dockerconfigjson': JSON.stringify({ auths }) }
    : { '.dockercfg': JSON.stringify(auths) };
  await admin.ask('DELETE', pathOf(MANAGER_NAMESPACE, 'registry'));
  await admin.do('POST', pathOf(MANAGER_NAMESPACE), { metadata: { name: 'registry' }, type, stringData: data });
}

interface Seen {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
  readonly type: string;
  readonly data: Readonly<Record<string, string>>;
}

/** Returns the only Secret of the namespace that is a registry credential. */
async function copyIn(namespace: string): Promise<(Seen & { readonly text: string }) | undefined> {
  const { items } = (await admin.do('GET', pathOf(namespace))) as unknown as { items: Seen[] };
  const [copy, ...more] = items.filter(({ type }) => type.startsWith('kubernetes.io/docker'));
  assert.deepEqual(more, []);
  return copy && { ...copy, text: Buffer.from(Object.values(copy.data)[0] ?? '', 'base64').toString() };
}

test('pull secrets: the namespace of a new service gets a copy, which follows changes', async (t) => {
  await give('first');
  const cluster = await testbed.open({ pullSecrets });
  t.after(cluster.close);
  await created(cluster.services, sampleService('cow'));
  await cluster.services.claimNamespace('alice', 'oscar-svc-alice');
  assert.match((await copyIn('oscar-svc'))?.text ?? '', /first/);
  assert.match((await copyIn('oscar-svc-alice'))?.text ?? '', /first/);

  await give('second');
  await cluster.reconcileCompanions(t.signal);
  const second = await copyIn('oscar-svc-alice');
  assert.match(second?.text ?? '', /second/);
  assert.match((await copyIn('oscar-svc'))?.text ?? '', /second/);
  await cluster.reconcileCompanions(t.signal);
  assert.equal((await copyIn('oscar-svc-alice'))?.metadata.resourceVersion, second?.metadata.resourceVersion);

  await give('third', 'kubernetes.io/dockercfg');
  await cluster.reconcileCompanions(t.signal);
  assert.match((await copyIn('oscar-svc'))?.text ?? '', /third/);
  assert.deepEqual(testbed.problems, []);
});

test('pull secrets: at its start, a manager updates existing namespaces and removes copies that are no longer configured', async (t) => {
  await give('first');
  const { name, labels, namespace = '' } = FROM_GO.metadata;
  await admin.ask('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
  await admin.do('POST', `/api/v1/namespaces/${namespace}/configmaps`, {
    metadata: { name, labels },
    data: FROM_GO.data,
  });
  const cluster = await testbed.open({ pullSecrets });
  await cluster.reconcileCompanions(t.signal);
  assert.match((await copyIn(namespace))?.text ?? '', /first/);
  await cluster.close();

  const without = await testbed.open();
  t.after(without.close);
  await without.reconcileCompanions(t.signal);
  assert.equal(await copyIn(namespace), undefined);
  assert.equal((await admin.ask('GET', pathOf(MANAGER_NAMESPACE, 'registry'))).status, 200);
});

test('pull secrets: other Secrets of the manager are never copied', async (t) => {
  await admin.do('POST', pathOf(MANAGER_NAMESPACE), {
    metadata: { name: 'passwords' },
    stringData: { OSCAR_PASSWORD: 'p' },
  });
  const cluster = await testbed.open({ pullSecrets: ['passwords'] });
  t.after(cluster.close);
  await created(cluster.services, sampleService('cow'));
  const { items } = (await admin.do('GET', pathOf('oscar-svc'))) as unknown as { items: Seen[] };
  assert.doesNotMatch(JSON.stringify(items), /OSCAR_PASSWORD/);
  assert.match(String(testbed.problems), /passwords in namespace oscar.* is of type Opaque and is not copied/);
});
