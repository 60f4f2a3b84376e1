import assert from 'node:assert/strict';
import { after, afterEach, before, describe, type TestContext, test } from 'node:test';
import {
  type KubernetesCapacityOptions,
  openKubernetesCapacity,
} from '../../src/adapters/kubernetes/capacity/index.ts';
import { Api } from '../../src/adapters/kubernetes/client/api.ts';
import { readEndpoint } from '../../src/adapters/kubernetes/client/endpoint.ts';
import { JOB_KEY } from '../../src/adapters/kubernetes/objects/labels.ts';
import { describeCapacity } from '../../src/ports/conformance/capacity.conformance.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { GLOBAL_ROLE, GLOBAL_RULES, MANAGER_NAMESPACE } from './manager-rights.ts';
import { Proxy } from './proxy.ts';
import { SimulatedNodes } from './simulated-nodes.ts';
import { startTestbed } from './testbed.ts';

/** Capacity from a real API server, with only the rights of a manager. Its nodes are simulated. */
const testbed = await startTestbed();
after(() => testbed.plane.stop());
const { plane } = testbed;
const { admin } = plane;
const simulated = await SimulatedNodes.in(admin, 'work');
const manager = { namespace: MANAGER_NAMESPACE, name: 'oscar' };

async function open(port = plane.port, more: Partial<KubernetesCapacityOptions> = {}) {
  const endpoint = await readEndpoint(await plane.managerKubeconfig(port));
  const rate = { perSecond: 5_000, burst: 5_000 };
  const api = new Api(endpoint, { rate, requestMs: 2_000, patienceMs: 4_000, random: Math.random });
  const problems: unknown[] = [];
  const cluster = await openKubernetesCapacity(api, {
    manager,
    report: (problem) => problems.push(problem),
    ...more,
  }).catch((error: unknown) => {
    api.close();
    throw error;
  });
  const close = async () => {
    await cluster.close();
    api.close();
  };
  return { ...cluster, problems, close };
}

/** Opens the capacity of a cluster with one empty node, `a`, that has four cores. */
async function opened(t: TestContext, ...options: Parameters<typeof open>) {
  await simulated.node('a');
  const cluster = await open(...options);
  t.after(cluster.close);
  const requested = () =>
    Object.fromEntries(cluster.capacity.nodes().map(({ name, requested: { cpu } }) => [name, cpu]));
  const becomes = (expected: Record<string, number>) => eventually(() => assert.deepEqual(requested(), expected));
  return { ...cluster, becomes };
}

const ask = (cpu: number) => ({ cpu, memory: 0, gpu: 0 });

await simulated.node('first', { cpu: '4', memory: '8Gi' });
await simulated.node('second', { cpu: '1500m', memory: '64Gi', gpu: '2' });
await simulated.node('plane', { cpu: '64', labels: { 'node-role.kubernetes.io/control-plane': '' } });

describeCapacity('Kubernetes', async () => {
  const { capacity, close } = await open();
  return { capacity, close };
});

test('capacity: it shows the nodes', async (t) => {
  const { capacity, close } = await open();
  t.after(close);
  const [first, second, ...others] = capacity.nodes();
  assert.deepEqual(others, []);
  assert.deepEqual(first, {
    name: 'first',
    ready: true,
    total: { cpu: 4_000, memory: 8 * 1024 ** 3, gpu: 0 },
    requested: { cpu: 0, memory: 0, gpu: 0 },
    used: { cpu: 0, memory: 0 },
    state: { health: 'Ready', conditions: [{ type: 'Ready', status: true }], interlink: false },
  });
  assert.deepEqual([second?.name, second?.total.gpu], ['second', 2]);
});

describe('capacity: changes', () => {
  before(() => simulated.wipe());
  afterEach(() => simulated.wipe());

  test('pods count from their binding until they end or are deleted', async (t) => {
    await simulated.node('a');
    await simulated.pod('early', '250m');
    await simulated.bind('early', 'a');
    await simulated.pod('over', '3');
    await simulated.bind('over', 'a');
    await simulated.setPhase('over', 'Succeeded');
    await simulated.removeNode('a');
    const { becomes } = await opened(t);
    await becomes({ a: 250 });

    await simulated.pod('one', '500m');
    await simulated.pod('two', '1');
    await simulated.bind('one', 'a');
    await becomes({ a: 750 });
    await simulated.bind('two', 'a');
    await becomes({ a: 1_750 });
    await simulated.setPhase('one', 'Running');
    await simulated.setPhase('two', 'Running');
    await simulated.setPhase('one', 'Failed');
    await becomes({ a: 1_250 });
    await simulated.removePod('two');
    await becomes({ a: 250 });
  });

  test('an admitted attempt counts once, with or without its pod', async (t) => {
    const { capacity, becomes } = await opened(t);
    let room = 0;
    capacity.onFreed(() => room++);
    assert.equal(capacity.reserve('demo/1', ask(3_000)), true);
    assert.equal(capacity.reserve('demo/2', ask(1_500)), false);
    await simulated.node('b', { cpu: '3' });
    await becomes({ a: 3_000, b: 0 });
    // It is seen before it is ready.
    await eventually(() => assert.equal(capacity.reserve('demo/3', ask(2_500)), true));
    await becomes({ a: 3_000, b: 2_500 });
    await simulated.pod('demo-3', '2500m', { [JOB_KEY]: 'demo/3' });
    await simulated.bind('demo-3', 'b');
    await simulated.setPhase('demo-3', 'Running');
    await becomes({ a: 3_000, b: 2_500 });
    const timesTold = room;
    await simulated.setPhase('demo-3', 'Succeeded');
    await becomes({ a: 3_000, b: 0 });
    await eventually(() => assert.ok(room > timesTold));
    capacity.release('demo/3');
    capacity.release('demo/1');
    await becomes({ a: 0, b: 0 });
  });

  test('a node that is cordoned, tainted, not ready or deleted has no room', async (t) => {
    const { capacity } = await opened(t);
    const fits = () => {
      const had = capacity.reserve('probe', ask(100));
      capacity.release('probe');
      return had;
    };
    const becomes = (expected: boolean) => eventually(() => assert.equal(fits(), expected));
    await becomes(true);
    await simulated.patchNode('a', { spec: { unschedulable: true } });
    await becomes(false);
    assert.equal(capacity.nodes()[0]?.state?.health, 'Ready');
    assert.equal(capacity.refusal(ask(4_000)), undefined);
    await simulated.patchNode('a', { spec: { unschedulable: null } });
    await becomes(true);
    await simulated.patchNode('a', { spec: { taints: [{ key: 'lab', effect: 'NoSchedule' }] } });
    await becomes(false);
    await simulated.patchNode('a', { spec: { taints: null } });
    await becomes(true);
    await simulated.setReady('a', 'Unknown');
    await becomes(false);
    assert.equal(capacity.nodes()[0]?.state?.health, 'Unknown');
    await simulated.setReady('a', 'True');
    await becomes(true);
    await simulated.removeNode('a');
    await becomes(false);
    assert.deepEqual(capacity.nodes(), []);
  });

  test('only nodes that match the selector count', async (t) => {
    await simulated.node('ours', { labels: { pool: 'oscar' } });
    await simulated.patchNode('ours', { spec: { taints: [{ key: 'pool', value: 'oscar', effect: 'NoSchedule' }] } });
    const { capacity } = await opened(t, plane.port, {
      nodeSelector: { pool: 'oscar' },
      tolerations: [{ key: 'pool', value: 'oscar' }],
    });
    assert.deepEqual(
      capacity.nodes().map(({ name, ready }) => [name, ready]),
      [['ours', true]],
    );
  });

  test('changes during an outage of the watches are caught up, and reads work all the time', async (t) => {
    const proxy = await Proxy.start(plane.port);
    t.after(() => proxy.stop());
    const { becomes, metrics, problems, capacity } = await opened(t, proxy.port);
    await simulated.pod('one', '1');
    await simulated.bind('one', 'a');
    await simulated.pod('two', '500m', { [JOB_KEY]: 'demo/2' });
    await becomes({ a: 1_000 });
    assert.equal(capacity.reserve('demo/3', ask(200)), true);

    proxy.refuse();
    await eventually(() => assert.equal(metrics().live, false));
    await simulated.removePod('one');
    await simulated.bind('two', 'a');
    await simulated.node('b', { cpu: '1' });
    await becomes({ a: 1_200 });
    proxy.open();
    await becomes({ a: 700, b: 0 });
    await eventually(() => assert.equal(metrics().live, true));
    assert.ok(problems.length > 0);
  });

  test('a restart of the API server changes nothing', async (t) => {
    const { becomes, metrics } = await opened(t);
    await simulated.pod('one', '1');
    await simulated.bind('one', 'a');
    await becomes({ a: 1_000 });
    await plane.killApiServer();
    await plane.startApiServer();
    await simulated.removePod('one');
    await becomes({ a: 0 });
    await eventually(() => assert.equal(metrics().live, true));
  });

  test('a manager without the right to list nodes does not start and names the missing right', async (t) => {
    const role = `/apis/rbac.authorization.k8s.io/v1/clusterroles/${GLOBAL_ROLE}`;
    const set = (rules: readonly unknown[]) => admin.do('PUT', role, { metadata: { name: GLOBAL_ROLE }, rules });
    await set(GLOBAL_RULES.filter(({ resources }) => !resources.includes('nodes')));
    t.after(() => set(GLOBAL_RULES));
    await assert.rejects(open(plane.port, { times: { startMs: 4_000 } }), {
      code: 'unavailable',
      message:
        /within 4 s: .*grant system:serviceaccount:oscar:oscar-sa the permission to "list" nodes in the whole cluster/,
    });
  });

  test("status: it shows the manager's Deployment, or that the manager runs outside", async (t) => {
    const { deployment } = await opened(t, plane.port, { times: { usageMs: 20 } });
    assert.deepEqual([deployment.replicas, deployment.readyReplicas, deployment.strategy], [1, 1, 'Recreate']);
    assert.ok(Math.abs(deployment.createdAt - Date.now()) < 60_000);

    const deployments = `/apis/apps/v1/namespaces/${MANAGER_NAMESPACE}/deployments`;
    const labels = { app: 'oscar' };
    const template = { metadata: { labels }, spec: { containers: [{ name: 'oscar', image: 'none' }] } };
    await admin.do('POST', deployments, {
      metadata: { name: 'oscar', labels: { ...labels, team: 'lab' } },
      spec: { replicas: 3, selector: { matchLabels: labels }, template },
    });
    t.after(() => admin.ask('DELETE', `${deployments}/oscar`));
    await eventually(() => assert.deepEqual(deployment.labels, { app: 'oscar', team: 'lab' }));
    assert.deepEqual([deployment.replicas, deployment.readyReplicas, deployment.availableReplicas], [0, 0, 0]);
    assert.equal(deployment.strategy, 'RollingUpdate');
    const status = { replicas: 3, readyReplicas: 2, availableReplicas: 1 };
    await admin.do('PATCH', `${deployments}/oscar/status`, { status }, 'application/merge-patch+json');
    await eventually(() => {
      const { replicas, readyReplicas, availableReplicas } = deployment;
      assert.deepEqual({ replicas, readyReplicas, availableReplicas }, status);
    });
    await admin.do('DELETE', `${deployments}/oscar`);
    await eventually(() => assert.equal(deployment.readyReplicas, 1));
  });
});
