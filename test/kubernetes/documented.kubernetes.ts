import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse, stringify } from 'yaml';
import { ATTEMPT, HOLD } from '../../src/adapters/kubernetes/runner/pod.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { ControlPlane } from './control-plane.ts';
import { CHART, CHECKOUT, documented, type Operator, operator } from './helm.ts';
import { MANAGER_NAMESPACE, removeRights } from './manager-rights.ts';
import { SERVICES_NAMESPACE } from './testbed.ts';

/** Documented commands that would do much harm if they did not do what the page says. */
describe('documented commands', () => {
  let plane: ControlPlane;
  let our: Operator;
  let directory: string;

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'oscar-documented-'));
    // With controllers, because otherwise a deleted namespace would keep its objects.
    plane = await ControlPlane.start({ controllers: true });
    our = await operator(await plane.adminKubeconfig(), directory);
    // The control plane has already granted the manager's rights. Here the chart must do it.
    await removeRights(plane.admin);
  });
  after(async () => {
    await plane.stop();
    rmSync(directory, { recursive: true });
  });

  const services = `/api/v1/namespaces/${SERVICES_NAMESPACE}`;
  const there = async (path: string) => (await plane.admin.ask('GET', path)).status === 200;
  const gone = (path: string) => eventually(async () => assert.ok(!(await there(path)), path), 60_000);
  const inOscar = ['--namespace', MANAGER_NAMESPACE];

  test('removing a Go manager keeps services and keys, and either manager can be installed afterwards', async () => {
    const chart = goChart(join(directory, 'go-chart'));
    await our.helm('install', 'oscar', chart, ...inOscar);
    const alices = 'oscar-svc-alice';
    const labels = { 'app.kubernetes.io/managed-by': 'oscar' };
    await plane.admin.do('POST', '/api/v1/namespaces', { metadata: { name: alices, labels } });
    const made = [`${services}/configmaps`, `${services}/secrets`, `/api/v1/namespaces/${alices}/secrets`];
    for (const path of made) await plane.admin.do('POST', path, { metadata: { name: 'of-the-go-manager' } });
    const stays = [services, `${services}/persistentvolumeclaims/oscar-pvc`, ...made.map(ofTheGoManager)];
    const goes = [
      `/apis/apps/v1/namespaces/${MANAGER_NAMESPACE}/deployments/oscar`,
      `/api/v1/namespaces/${MANAGER_NAMESPACE}/serviceaccounts/oscar-sa`,
      `${services}/configmaps/additional-oscar-config`,
      '/apis/rbac.authorization.k8s.io/v1/clusterroles/oscar-cluster-role',
    ];
    for (const path of [...stays, ...goes]) assert.ok(await there(path), path);

    await our.shell(documented('docs/kubernetes.md', 'saved-$namespace.yaml'));
    await our.shell(documented('docs/kubernetes.md', 'helm get manifest'));

    for (const path of goes) await gone(path);
    const remains = async () => {
      for (const path of stays) assert.ok(await there(path), path);
      const { status } = await plane.admin.do('GET', services);
      assert.deepEqual(status, { phase: 'Active' });
    };
    await remains();
    assert.equal((await our.helm('list', '--all-namespaces', '--short')).trim(), '');
    for (const namespace of [SERVICES_NAMESPACE, alices]) {
      const { items } = parse(readFileSync(join(directory, `saved-${namespace}.yaml`), 'utf8')) as {
        items: { kind: string; metadata: { name: string } }[];
      };
      assert.ok(items.some(({ kind, metadata }) => kind === 'Secret' && metadata.name === 'of-the-go-manager'));
    }

    await our.helm('install', 'oscar', CHART, ...inOscar, '--set', 'minIO.deploy=true');
    await remains();
    await our.helm('uninstall', 'oscar', ...inOscar);
    await remains();
    await our.helm('install', 'oscar', chart, ...inOscar);
    await remains();
    for (const path of goes) assert.ok(await there(path), path);
  });

  test('removing the finalizers of jobs without a manager', async () => {
    const namespace = 'oscar-svc-bob';
    await plane.admin.do('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
    for (const name of ['cows-1', 'cows-2']) {
      await plane.admin.do('POST', `/api/v1/namespaces/${namespace}/pods`, {
        metadata: { name, labels: { [ATTEMPT]: name }, finalizers: [HOLD] },
        spec: { containers: [{ name: 'script', image: 'busybox' }] },
      });
    }
    await our.kubectl('', 'delete', 'namespace', namespace, '--wait=false');
    const pods = `/api/v1/namespaces/${namespace}/pods`;
    await eventually(async () => {
      const { items } = (await plane.admin.do('GET', pods)) as { items: { metadata: object }[] };
      assert.equal(items.filter(({ metadata }) => 'deletionTimestamp' in metadata).length, 2);
    }, 60_000);
    await our.shell(documented('docs/kubernetes.md', '"finalizers": null'));
    await gone(`/api/v1/namespaces/${namespace}`);
  });

  test('creating the rights for a manager that runs from a checkout', async () => {
    await our.kubectl('', 'delete', 'namespace', MANAGER_NAMESPACE);
    await our.shell(documented('docs/operation.md', '--show-only templates/rbac.yaml'), CHECKOUT);
    const whoami = documented('docs/operation.md', 'auth whoami');
    assert.match(await our.shell(whoami), /system:serviceaccount:oscar:oscar-sa/);
  });
});

const ofTheGoManager = (path: string) => `${path}/of-the-go-manager`;

/**
 * Like the chart of the Go manager: the services namespace is part of it, and other objects name no namespace. Some
 * lines look like the end of an object.
 */
function goChart(path: string): string {
  mkdirSync(join(path, 'templates'), { recursive: true });
  writeFileSync(join(path, 'Chart.yaml'), stringify({ apiVersion: 'v2', name: 'oscar', version: '1.0.0' }));
  const namespace = SERVICES_NAMESPACE;
  const app = { app: 'oscar' };
  const container = { name: 'oscar', image: 'ghcr.io/grycap/oscar' };
  const rbac = 'rbac.authorization.k8s.io';
  const parts: Record<string, object[]> = {
    namespace: [{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } }],
    oscar: [
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'oscar-sa' } },
      {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { name: 'oscar' },
        spec: {
          selector: { matchLabels: app },
          template: { metadata: { labels: app }, spec: { containers: [container] } },
        },
      },
      {
        apiVersion: `${rbac}/v1`,
        kind: 'ClusterRole',
        metadata: { name: 'oscar-cluster-role' },
        rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }],
      },
    ],
    settings: [
      {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'additional-oscar-config', namespace },
        data: { ca: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n---\nkind: Namespace\n' },
      },
      {
        apiVersion: 'v1',
        kind: 'PersistentVolumeClaim',
        metadata: { name: 'oscar-pvc', namespace },
        spec: { accessModes: ['ReadWriteMany'], storageClassName: '', resources: { requests: { storage: '2Gi' } } },
      },
    ],
  };
  for (const [name, objects] of Object.entries(parts)) {
    const text = objects.map((object) => `---\n${stringify(object)}`).join('');
    writeFileSync(join(path, 'templates', `${name}.yaml`), text);
  }
  return path;
}
