import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { KnativeSettings, KubernetesCluster } from '../../src/adapters/kubernetes/index.ts';
import type { Service } from '../../src/model/service/index.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { sampleService } from '../../src/ports/conformance/sample-service.ts';
import { created } from '../../src/ports/conformance/service-store-under-test.ts';
import { installKnativeTypes } from './knative/install.ts';
import { startTestbed } from './testbed.ts';

/**
 * The Knative objects of services, and what happens to them when the service changes (docs/operation.md#what-is-where).
 */
const testbed = await startTestbed();
after(() => testbed.plane.stop());
const { admin } = testbed.plane;

const SETTINGS: KnativeSettings = {
  image: 'localhost/oscar-manager:test',
  pullPolicy: 'IfNotPresent',
  scriptPullPolicy: 'Always',
  resources: { requests: { cpu: '10m', memory: '96Mi' } },
  diskBytes: 2 ** 30,
  nonRoot: false,
  timeoutSeconds: 300,
};

const WORKER: Service['federation'] = {
  role: 'worker',
  uid: 'federation',
  revision: 1,
  keyId: 'key',
  digest: 'digest',
  origin: { clusterId: 'a', service: 'there', endpoint: 'https://a.example', store: 'https://store.example' },
  adopted: false,
};

interface Seen {
  readonly metadata: {
    readonly uid: string;
    readonly generation: number;
    readonly labels: Record<string, string>;
    readonly annotations: Record<string, string>;
    readonly ownerReferences: readonly { readonly kind: string }[];
  };
}

const pathOf = (name: string) => `/apis/serving.knative.dev/v1/namespaces/oscar-svc/services/${name}`;
const statusOf = async (name: string) => (await admin.ask('GET', pathOf(name))).status;
const seen = async (name: string) => (await admin.do('GET', pathOf(name))) as unknown as Seen;
const ofAdmin = (name: string, more: Parameters<typeof sampleService>[1] = {}) =>
  sampleService(name, { owner: 'cluster_admin', namespace: 'oscar-svc', ...more });

/** Rejects Knative Services with this label, as a webhook would. */
async function forbid(label: string): Promise<void> {
  const name = `no-${label}`;
  const path = '/apis/admissionregistration.k8s.io/v1';
  const rule = {
    apiGroups: ['serving.knative.dev'],
    apiVersions: ['v1'],
    operations: ['CREATE', 'UPDATE'],
    resources: ['services'],
  };
  await admin.do('POST', `${path}/validatingadmissionpolicies`, {
    metadata: { name },
    spec: {
      matchConstraints: { resourceRules: [rule] },
      validations: [
        { expression: `!('${label}' in object.metadata.?labels.orValue({}))`, message: 'nobody wants that label' },
      ],
    },
  });
  await admin.do('POST', `${path}/validatingadmissionpolicybindings`, {
    metadata: { name },
    spec: { policyName: name, validationActions: ['Deny'] },
  });
  const probe = {
    apiVersion: 'serving.knative.dev/v1',
    kind: 'Service',
    metadata: { name: 'probe', labels: { [label]: 'yes' } },
    spec: {},
  };
  const ask = () => admin.ask('POST', `${pathOf('').slice(0, -1)}?dryRun=All`, probe);
  await eventually(async () => assert.equal((await ask()).status, 422), 60_000, 100);
}

test('Knative: without it, a create is rejected with the reason', async () => {
  const without = await testbed.open({ knative: SETTINGS });
  try {
    await assert.rejects(created(without.services, ofAdmin('early')), {
      code: 'unavailable',
      message: /this cluster has no Knative Serving: install it/,
    });
    assert.equal(await without.services.get('early'), undefined);
    assert.equal(without.knative?.installed, false);
    assert.equal(without.knative?.deploymentStatus(ofAdmin('early'))?.state, 'failed');
    assert.match(String(testbed.problems.at(0)), /no Knative Serving/);
  } finally {
    await without.close();
  }
});

describe('Knative: objects', () => {
  let cluster: KubernetesCluster;

  before(async () => {
    await installKnativeTypes(admin);
    cluster = await testbed.open({ knative: SETTINGS });
  });
  after(() => cluster.close());

  test('each service has a cluster-local Knative Service', async () => {
    await created(cluster.services, ofAdmin('called', { definition: { annotations: { note: 'kept' } } }));
    const { metadata } = await seen('called');
    assert.equal(metadata.labels['networking.knative.dev/visibility'], 'cluster-local');
    assert.equal(metadata.labels['oscar_service'], 'called');
    assert.equal(metadata.annotations['note'], 'kept');
    assert.deepEqual(
      metadata.ownerReferences.map(({ kind }) => kind),
      ['ConfigMap'],
    );
    assert.equal(cluster.knative?.installed, true);
    await eventually(() => assert.equal(cluster.knative?.deploymentStatus(ofAdmin('called'))?.state, 'pending'));
  });

  test("an update changes the Knative Service and keeps Knative's own fields", async () => {
    const { service, version } = await created(cluster.services, ofAdmin('changed'));
    const creator = { metadata: { annotations: { 'serving.knative.dev/creator': 'somebody' } } };
    await admin.do('PATCH', pathOf('changed'), creator, 'application/merge-patch+json');
    const first = (await seen('changed')).metadata;
    const scripted = { ...service, definition: { ...service.definition, script: 'echo other' } };
    const next = await cluster.services.replace(scripted, version);
    assert.equal((await seen('changed')).metadata.generation, first.generation);
    const larger = { ...scripted, definition: { ...scripted.definition, memory: '1Gi' } };
    await cluster.services.replace(larger, next.version);
    const { metadata } = await seen('changed');
    assert.ok(metadata.generation > first.generation);
    assert.deepEqual([metadata.uid, metadata.annotations['serving.knative.dev/creator']], [first.uid, 'somebody']);
  });

  test('it is deleted with its service, and a new service of that name gets a new one', async () => {
    const { version } = await created(cluster.services, ofAdmin('gone'));
    const { uid } = (await seen('gone')).metadata;
    await cluster.services.remove('gone', version);
    assert.equal(await statusOf('gone'), 404);
    await created(cluster.services, ofAdmin('gone', { uid: 'another' }));
    assert.notEqual((await seen('gone')).metadata.uid, uid);
  });

  test('workers of a federation have none', async () => {
    await created(cluster.services, ofAdmin('worker', { federation: WORKER }));
    assert.equal(await statusOf('worker'), 404);
    const { service, version } = await created(cluster.services, ofAdmin('lent'));
    const lent = await cluster.services.replace({ ...service, federation: WORKER }, version);
    assert.equal(await statusOf('lent'), 404);
    assert.equal(cluster.knative?.deploymentStatus(lent.service), undefined);
    await cluster.services.replace(service, lent.version);
    assert.equal(await statusOf('lent'), 200);
  });

  test('the leader creates missing ones and updates outdated ones', async () => {
    await created(cluster.services, ofAdmin('kept'));
    const first = (await seen('kept')).metadata;
    await admin.do('DELETE', pathOf('called'));
    const other = await testbed.open({ knative: { ...SETTINGS, image: 'localhost/oscar-manager:next' } });
    try {
      await other.reconcileCompanions(new AbortController().signal);
    } finally {
      await other.close();
    }
    assert.equal(await statusOf('called'), 200);
    const { metadata } = await seen('kept');
    assert.deepEqual([metadata.uid, metadata.generation > first.generation], [first.uid, true]);
  });

  test('an error of Knative is returned, and nothing is created or changed', async () => {
    await forbid('forbidden');
    const marked = { labels: { forbidden: 'yes' } };
    const refusal = { code: 'refused', message: /Knative does not take it: .*nobody wants that label/ };
    await assert.rejects(created(cluster.services, ofAdmin('never', { definition: marked })), refusal);
    assert.equal(await cluster.services.get('never'), undefined);
    const { service, version } = await created(cluster.services, ofAdmin('stays'));
    const next = { ...service, definition: { ...service.definition, ...marked } };
    await assert.rejects(cluster.services.replace(next, version), refusal);
    assert.equal((await cluster.services.get('stays'))?.version, version);
  });

  test('without the setting, none is created', async () => {
    const plain = await testbed.open();
    try {
      await created(plain.services, ofAdmin('plain'));
      assert.equal(await statusOf('plain'), 404);
      assert.equal(plain.knative, undefined);
    } finally {
      await plain.close();
    }
  });
});
