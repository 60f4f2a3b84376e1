import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { openKubernetesCapacity } from '../src/adapters/kubernetes/capacity/index.ts';
import { Api } from '../src/adapters/kubernetes/client/api.ts';
import { readEndpoint } from '../src/adapters/kubernetes/client/endpoint.ts';
import { storeClient } from '../src/ports/conformance/object-store-under-test.fixture.ts';
import { MANAGER_NAMESPACE } from '../test/kubernetes/manager-rights.ts';
import { SimulatedNodes } from '../test/kubernetes/simulated-nodes.ts';
import { ROOT } from '../test/minio/minio.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { connect } from './support/connection.ts';
import { type Furnish, PASSWORD, startKubernetesSite } from './support/kubernetes-site.ts';
import { median, percentile } from './support/statistics.ts';
import { startUser } from './support/user.ts';

export const description =
  'the status of a manager on a real API server and MinIO, with 500 simulated nodes and 20,000 pods';

export const figures = {
  status: { what: 'GET /system/status, 500 nodes and 20,000 pods, as a user, median', unit: 'ms', reach: ['<', 10] },
  statusSlowest: { what: '… 99th percentile', unit: 'ms' },
  statusOfAdmin: { what: '… as the administrator, 100 buckets, median', unit: 'ms', reach: ['<', 10] },
  statusOfAdminSlowest: { what: '… 99th percentile', unit: 'ms' },
  nodes: { what: '… of it, what is free on each node, median', unit: 'ms' },
  reserve: { what: 'find room for a job among them, median', unit: 'ms' },
  open: { what: 'list them all at start', unit: 'ms' },
} satisfies Record<string, Figure>;

const NODES = 500;
const PODS = 20_000;
const BUCKETS = 100;

/** How many are made at once. More only wait in the API server. */
const AT_ONCE = 32;

/** One after the other; the first tenth warms up. */
const TURNS = 550;

const NAMESPACE = 'work';

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  await using site = await startKubernetesSite(user, furnish);
  const { url } = site.manager;
  const asUser = await statusTimes(url, user.as);
  const asAdmin = await statusTimes(url, `Basic ${Buffer.from(`oscar:${PASSWORD}`).toString('base64')}`);
  return {
    status: median(asUser),
    statusSlowest: percentile(asUser, 99),
    statusOfAdmin: median(asAdmin),
    statusOfAdminSlowest: percentile(asAdmin, 99),
    ...(await measureCapacity(await site.plane.managerKubeconfig())),
  };
}

const furnish: Furnish = async ({ plane, minio }) => {
  const simulated = await SimulatedNodes.in(plane.admin, NAMESPACE);
  await eachOf(NODES, (index) => simulated.node(nodeAt(index), { cpu: '64', memory: '256Gi' }));
  await eachOf(PODS, (index) => simulated.podOn(nodeAt(index % NODES), `pod-${index}`, '250m'));
  const store = storeClient(minio, ROOT);
  await eachOf(BUCKETS, async (index) => {
    await store.client.send(new CreateBucketCommand({ Bucket: `bucket-${index}` }));
    await store.put(`bucket-${index}`, 'in/x', 'x');
  });
};

const nodeAt = (index: number) => `node-${String(index).padStart(3, '0')}`;

async function eachOf(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** What of it is work with nodes and pods, in this process. */
async function measureCapacity(kubeconfig: string) {
  const rate = { perSecond: 100_000, burst: 100_000 };
  const times = { requestMs: 30_000, patienceMs: 60_000 };
  const api = new Api(await readEndpoint(kubeconfig), { rate, ...times, random: Math.random });
  const begun = performance.now();
  const opened = await openKubernetesCapacity(api, {
    manager: { namespace: MANAGER_NAMESPACE, name: 'oscar' },
    report: (problem) => process.stderr.write(`${String(problem)}\n`),
    times: { startMs: 120_000 },
  });
  const open = performance.now() - begun;
  try {
    const { capacity } = opened;
    const counted = capacity.nodes().reduce((sum, { requested }) => sum + requested.cpu, 0);
    if (counted !== PODS * 250) throw new Error(`${counted} millicores are counted, and ${PODS * 250} are asked for`);
    const demand = { cpu: 1_000, memory: 1024 ** 3, gpu: 0 };
    return {
      nodes: median(timesOf(() => capacity.nodes())),
      reserve: median(
        timesOf((turn) => {
          capacity.reserve(`demo/${turn}`, demand);
          capacity.release(`demo/${turn}`);
        }),
      ),
      open,
    };
  } finally {
    await opened.close();
    api.close();
  }
}

/** One after the other, on one connection to the manager: a process of its own, with its real routes and logins. */
async function statusTimes(url: string, as: string): Promise<number[]> {
  using connection = connect(url, as);
  const times: number[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    times.push(await connection.call({ method: 'GET', path: '/system/status', body: '' }));
  }
  return times.slice(TURNS / 10);
}

function timesOf(work: (turn: number) => unknown): number[] {
  const times: number[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const begun = performance.now();
    work(turn);
    times.push(performance.now() - begun);
  }
  return times.slice(TURNS / 10);
}
