import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { openKubernetesCapacity } from '../../src/adapters/kubernetes/capacity/index.ts';
import { Api } from '../../src/adapters/kubernetes/client/api.ts';
import { readEndpoint } from '../../src/adapters/kubernetes/client/endpoint.ts';
import { openKubernetesCluster } from '../../src/adapters/kubernetes/index.ts';
import { statusView } from '../../src/http/status-view.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { BUSYBOX } from '../docker/busybox.ts';
import { MANAGER_NAMESPACE, SERVICE_ACCOUNT } from './manager-rights.ts';
import { Cluster } from './node/cluster.ts';
import { GATEWAY } from './node/names.ts';
import { Pods, podSpec } from './node/pods.ts';

/** Polls node usage more often than a manager does: the test waits only for the first figures. */
const USAGE_MS = 500;

/** Nodes count as lost after 15 s of silence. The limit allows for a busy machine. */
const LOST_MS = 90_000;

let cluster: Cluster;
let pods: Pods;
before(async () => {
  cluster = await Cluster.start({ dns: true, metrics: true });
  pods = await Pods.inNewNamespace(cluster.admin);
});
after(() => cluster.stop());

describe('test cluster with a node', { concurrency: 6, timeout: 600_000 }, () => {
  test('the node is ready and reports its capacity', async () => {
    const { status } = (await cluster.admin.do('GET', `/api/v1/nodes/${cluster.nodeName}`)) as { status: NodeStatus };
    assert.equal(readiness(status), 'True');
    assert.ok(Number(status.allocatable.cpu) >= 1);
  });

  test('a Job completes and has a log', async () => {
    const jobs = `/apis/batch/v1/namespaces/${pods.namespace}/jobs`;
    await cluster.admin.do('POST', jobs, {
      metadata: { name: 'hello' },
      spec: { template: { spec: podSpec('echo hello from the job') } },
    });
    await eventually(async () => {
      const { status } = (await cluster.admin.do('GET', `${jobs}/hello`)) as { status: { succeeded?: number } };
      assert.equal(status.succeeded, 1);
    }, LOST_MS);
    const { items } = (await cluster.admin.do('GET', `${pods.path()}?labelSelector=job-name%3Dhello`)) as {
      items: { metadata: { name: string } }[];
    };
    assert.equal(await pods.log(items[0]?.metadata.name ?? ''), 'hello from the job\n');
  });

  test('init containers run first, a sidecar runs with the script, and they share a volume', async () => {
    const volumeMounts = [{ name: 'shared', mountPath: '/shared' }];
    const others = { image: BUSYBOX, volumeMounts };
    await pods.create(
      'sidecar',
      'cat /shared/input; echo done > /shared/output; until [ -e /shared/seen ]; do sleep 0.1; done',
      {
        container: { volumeMounts },
        initContainers: [
          { ...others, name: 'stage-in', command: ['sh', '-c', 'echo staged > /shared/input'] },
          {
            ...others,
            name: 'stage-out',
            restartPolicy: 'Always',
            command: [
              'sh',
              '-c',
              'until [ -e /shared/output ]; do sleep 0.1; done; touch /shared/seen; trap "exit 0" TERM; sleep 1000 & wait',
            ],
          },
        ],
        volumes: [{ name: 'shared', emptyDir: { sizeLimit: '10Mi' } }],
      },
    );
    const { phase } = await pods.waitUntilEnded('sidecar');
    assert.equal(phase, 'Succeeded');
    assert.equal(await pods.log('sidecar'), 'staged\n');
  });

  test('DNS resolves the name of a Service', async () => {
    await cluster.admin.do('POST', `/api/v1/namespaces/${pods.namespace}/services`, {
      metadata: { name: 'web' },
      spec: { selector: { app: 'web' }, ports: [{ port: 80, targetPort: 8080 }] },
    });
    await cluster.admin.do('POST', pods.path(), {
      metadata: { name: 'web', labels: { app: 'web' } },
      spec: podSpec('while true; do echo here is the service | nc -l -p 8080; done'),
    });
    await pods.waitFor('web', ({ containerStatuses }) => containerStatuses?.[0]?.state.running !== undefined);
    await pods.create('asks', 'until nc -w 2 web 80 < /dev/null; do sleep 0.2; done');
    await pods.waitUntilEnded('asks');
    assert.match(await pods.log('asks'), /here is the service/);
  });

  test('the metrics API reports the node', async () => {
    const path = `/apis/metrics.k8s.io/v1beta1/nodes/${cluster.nodeName}`;
    const { usage } = await eventually(() => cluster.admin.do('GET', path), LOST_MS, 100);
    assert.match((usage as { memory: string }).memory, /^\d+Ki$/);
  });

  test('the status of a manager has the usage of the node', async (t) => {
    const rate = { perSecond: 1_000, burst: 1_000 };
    const api = new Api(await readEndpoint(await cluster.managerKubeconfig()), {
      rate,
      requestMs: 5_000,
      patienceMs: 10_000,
      random: Math.random,
    });
    const { capacity, deployment, close } = await openKubernetesCapacity(api, {
      manager: { namespace: MANAGER_NAMESPACE, name: 'oscar' },
      // metrics-server answers with errors until it has its first figures.
      report: () => undefined,
      times: { usageMs: USAGE_MS },
    });
    t.after(async () => {
      await close();
      api.close();
    });
    await eventually(
      () => {
        const oidc = { enabled: false, issuers: [], groups: [] };
        const { nodes, metrics } = statusView({ nodes: capacity.nodes(), deployment, oidc }).cluster;
        const [node, ...more] = nodes ?? [];
        assert.deepEqual([node?.name, more], [cluster.nodeName, []]);
        const { capacity_cores: cores = 0, usage_cores: used = 0 } = node?.cpu ?? {};
        const { capacity_bytes: bytes = 0, usage_bytes: taken = 0 } = node?.memory ?? {};
        assert.ok(used > 0, `${used} of ${cores} millicores`);
        assert.ok(taken > 2 ** 20 && taken < bytes, `${taken} of ${bytes} bytes`);
        assert.deepEqual(
          [metrics.cpu.total_free_cores, metrics.memory.total_free_bytes],
          [Math.max(0, cores - used), bytes - taken],
        );
      },
      LOST_MS,
      100,
    );
  });

  test('the logs of managers are read from all pods and their previous containers', async (t) => {
    const deployments = `/apis/apps/v1/namespaces/${MANAGER_NAMESPACE}/deployments`;
    const labels = { app: 'oscar', part: 'manager' };
    // The first run of each ends at once, so that there is one before.
    const script = `
      run=$(cat /runs/count 2>/dev/null || echo 0); echo $((run + 1)) > /runs/count
      echo '{"level":30,"msg":"MARK not at the beginning"}'
      echo "MARK $HOSTNAME run $run, 1"; echo "MARK $HOSTNAME run $run, 2"; echo "MARK $HOSTNAME run $run, 3"
      [ $run -ge 1 ] || exit 1
      trap 'exit 0' TERM; sleep 1000 & wait`;
    const beside = { name: 'beside', image: BUSYBOX, command: ['sh', '-c', 'echo MARK of a sidecar; sleep 1000'] };
    const { containers, terminationGracePeriodSeconds } = podSpec(script, {
      container: { name: 'oscar', volumeMounts: [{ name: 'runs', mountPath: '/runs' }] },
    }) as { containers: unknown[]; terminationGracePeriodSeconds: number };
    await cluster.admin.do('POST', deployments, {
      metadata: { name: 'oscar' },
      spec: {
        replicas: 2,
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            terminationGracePeriodSeconds,
            containers: [beside, ...containers],
            volumes: [{ name: 'runs', emptyDir: {} }],
          },
        },
      },
    });
    t.after(() => cluster.admin.do('DELETE', `${deployments}/oscar`));
    const problems: unknown[] = [];
    await using manager = await openManager((problem) => void problems.push(problem));
    const read = async (previous: boolean, most = 100) => {
      const lines = await manager.managersLog('oscar').lines({ beginning: 'MARK ', previous, most });
      return lines.map((line) => line.replace(/oscar-\S+/, 'pod'));
    };
    const twice = (...lines: string[]) => [...lines, ...lines];
    const run = (number: number) => [1, 2, 3].map((line) => `MARK pod run ${number}, ${line}`);
    await eventually(async () => assert.deepEqual(await read(false), twice(...run(1))), LOST_MS, 100);
    assert.deepEqual(await read(true), twice(...run(0)));
    assert.deepEqual(await read(false, 1), twice('MARK pod run 1, 3'));
    assert.deepEqual(await manager.managersLog('none').lines({ beginning: '', previous: false, most: 1 }), []);
    assert.deepEqual(problems, []);
  });

  test('a container that exceeds its memory is killed with the reason OOMKilled', async () => {
    await pods.create('greedy', 'head -c 200m /dev/zero | tail', {
      container: { resources: { limits: { memory: '32Mi' } } },
    });
    const { containerStatuses } = await pods.waitUntilEnded('greedy');
    assert.equal(containerStatuses?.[0]?.state.terminated?.reason, 'OOMKilled');
  });

  test('a deadline that is lowered while a pod runs ends the pod and keeps its log', async () => {
    await pods.create('long', 'echo begun; sleep 1000');
    await pods.waitForOutput('long', 'begun');
    await cluster.admin.do('PATCH', pods.path('long'), { spec: { activeDeadlineSeconds: 1 } }, MERGE);
    const { phase, reason } = await pods.waitUntilEnded('long');
    assert.deepEqual({ phase, reason }, { phase: 'Failed', reason: 'DeadlineExceeded' });
    assert.equal(await pods.log('long'), 'begun\n');
  });

  test('a changed Secret reaches the pods that mount it', async () => {
    const secrets = `/api/v1/namespaces/${pods.namespace}/secrets`;
    await cluster.admin.do('POST', secrets, { metadata: { name: 'keys' }, stringData: { key: 'old\n' } });
    await pods.create('reads', 'cat /keys/key; until grep -q new /keys/key; do sleep 0.1; done; cat /keys/key', {
      container: { volumeMounts: [{ name: 'keys', mountPath: '/keys', readOnly: true }] },
      volumes: [{ name: 'keys', secret: { secretName: 'keys' } }],
    });
    await pods.waitForOutput('reads', 'old');
    await cluster.admin.do('PATCH', `${secrets}/keys`, { stringData: { key: 'new\n' } }, MERGE);
    await pods.waitUntilEnded('reads');
    assert.equal(await pods.log('reads'), 'old\nnew\n');
  });

  test('a pod reaches a server of the test by address and by name', async (t) => {
    const { server, port } = await serveAt(GATEWAY);
    t.after(() => server.close());
    const get = (host: string) => `printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 ${host} ${port}; echo`;
    await pods.create('outward', `${get(GATEWAY)}; ${get('host.test')}`);
    await pods.waitUntilEnded('outward');
    assert.equal((await pods.log('outward')).match(/here is the test/g)?.length, 2);
  });

  test('a missing image fails soon', async () => {
    await pods.create('imageless', 'true', { container: { image: 'registry.test/none:1' } });
    await pods.waitFor('imageless', ({ containerStatuses }) =>
      /ErrImagePull|ImagePullBackOff/.test(JSON.stringify(containerStatuses)),
    );
  });

  test('pods of two clusters reach each other', async (t) => {
    const other = await Cluster.start();
    t.after(() => other.stop());
    assert.notEqual(other.nodeAddress, cluster.nodeAddress);
    const ask = (to: Cluster) => `nc -w 5 ${to.nodeAddress} ${to.plane.port} < /dev/null > /dev/null && echo reached`;
    const others = await Pods.inNewNamespace(other.admin);
    await Promise.all([pods.create('there', ask(other)), others.create('back', ask(cluster))]);
    await Promise.all([pods.waitUntilEnded('there'), others.waitUntilEnded('back')]);
    assert.equal(await pods.log('there'), 'reached\n');
    assert.equal(await others.log('back'), 'reached\n');
  });
});

test('a killed node is noticed, its pods are evicted, and it can come back', async () => {
  const ready = async () => {
    const { status } = (await cluster.admin.do('GET', `/api/v1/nodes/${cluster.nodeName}`)) as { status: NodeStatus };
    return readiness(status);
  };
  await pods.create('lost', 'echo begun; sleep 1000');
  await pods.waitForOutput('lost', 'begun');
  await cluster.killNode();
  await eventually(async () => assert.equal(await ready(), 'Unknown'), LOST_MS, 100);
  await eventually(
    async () => {
      const { metadata } = (await cluster.admin.do('GET', pods.path('lost'))) as {
        metadata: { deletionTimestamp?: string };
      };
      assert.notEqual(metadata.deletionTimestamp, undefined);
    },
    LOST_MS,
    100,
  );
  await cluster.startNode();
  assert.equal(await ready(), 'True');
  await eventually(
    async () => assert.equal((await cluster.admin.ask('GET', pods.path('lost'))).status, 404),
    LOST_MS,
    100,
  );
  await eventually(() => pods.create('next', 'echo still here'), LOST_MS, 100);
  assert.equal((await pods.waitUntilEnded('next')).phase, 'Succeeded');
});

/** Opens the stores of a manager with the rights of its account. */
async function openManager(report: (problem: unknown) => void) {
  const opened = await openKubernetesCluster({
    kubeconfig: await cluster.managerKubeconfig(),
    namespace: MANAGER_NAMESPACE,
    servicesNamespace: 'oscar-svc',
    controllerServiceAccount: SERVICE_ACCOUNT,
    settingsName: 'config.yaml',
    objectStore: { endpoint: 'http://minio.minio:9000', verify: true, region: 'us-east-1' },
    rate: { perSecond: 1_000, burst: 1_000 },
    report,
  });
  return { ...opened, [Symbol.asyncDispose]: () => opened.close() };
}

const MERGE = 'application/strategic-merge-patch+json';

interface NodeStatus {
  readonly conditions: readonly { readonly type: string; readonly status: string }[];
  readonly allocatable: { readonly cpu: string };
}

function readiness({ conditions }: NodeStatus): string | undefined {
  return conditions.find(({ type }) => type === 'Ready')?.status;
}

async function serveAt(address: string): Promise<{ server: Server; port: number }> {
  const server = createServer((_, response) => response.end('here is the test')).listen(0, address);
  await once(server, 'listening');
  return { server, port: (server.address() as AddressInfo).port };
}
