import Fastify, { type FastifyServerOptions } from 'fastify';
import { Secret } from '../src/base/secret.ts';
import { Api } from '../src/cluster/kubernetes/api/api.ts';
import { endpointOf } from '../src/cluster/kubernetes/api/endpoint.ts';
import { type OpenCapacity, openKubernetesCapacity } from '../src/cluster/kubernetes/capacity/index.ts';
import { goJson } from '../src/http/go-json.ts';
import { statusRoutes } from '../src/http/routes/status.ts';
import { createAuthenticator } from '../src/identity/index.ts';
import { ControlPlane } from '../test/kubernetes/control-plane.ts';
import { MANAGER_NAMESPACE } from '../test/kubernetes/manager-rights.ts';
import { SimulatedNodes } from '../test/kubernetes/simulated-nodes.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { connect } from './support/connection.ts';
import { median, percentile } from './support/statistics.ts';

export const description = 'the status of a real Kubernetes API with 500 simulated nodes and 20,000 pods';

export const figures = {
  status: { what: 'GET /system/status, 500 nodes and 20,000 pods, median', unit: 'ms', reach: ['<', 10] },
  statusSlowest: { what: '… 99th percentile', unit: 'ms' },
  nodes: { what: '… of it, what is free on each node, median', unit: 'ms' },
  reserve: { what: 'find room for a job among them, median', unit: 'ms' },
  open: { what: 'list them all at start', unit: 'ms' },
} satisfies Record<string, Figure>;

const NODES = 500;
const PODS = 20_000;

/** How many are made at once. More only wait in the API server. */
const AT_ONCE = 32;

/** One after the other; the first tenth warms up. */
const TURNS = 550;

const NAMESPACE = 'work';

export async function run(): Promise<Measured<typeof figures>> {
  const plane = await ControlPlane.start();
  try {
    const simulated = await SimulatedNodes.in(plane.admin, NAMESPACE);
    await eachOf(NODES, (index) => simulated.node(nodeAt(index), { cpu: '64', memory: '256Gi' }));
    await eachOf(PODS, (index) => simulated.podOn(nodeAt(index % NODES), `pod-${index}`, '250m'));
    return await measure(await plane.managerKubeconfig());
  } finally {
    await plane.stop();
  }
}

const nodeAt = (index: number) => `node-${String(index).padStart(3, '0')}`;

async function eachOf(count: number, work: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

async function measure(kubeconfig: string): Promise<Measured<typeof figures>> {
  const rate = { perSecond: 100_000, burst: 100_000 };
  const times = { requestMs: 30_000, patienceMs: 60_000 };
  const api = new Api(await endpointOf(kubeconfig), { rate, ...times, random: Math.random });
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
    const status = await statusTimes(opened);
    const demand = { cpu: 1_000, memory: 1024 ** 3, gpu: 0 };
    return {
      status: median(status),
      statusSlowest: percentile(status, 99),
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

/** Over a connection to a server that has this route alone, as another cluster asks: as a user. */
async function statusTimes({ capacity, deployment }: OpenCapacity): Promise<number[]> {
  const app = Fastify({ schemaController: { compilersFactory: OWN_ENCODER } });
  const authenticator = createAuthenticator({
    admin: { username: 'oscar', password: new Secret('of nobody here') },
    oidc: { verify: async (uid) => ({ kind: 'user', uid, name: uid, groups: [], operator: false }) },
  });
  const oidc = { enabled: true, issuers: [], groups: [] };
  statusRoutes(app, { authenticator, capacity, deployment, oidc, jobs: { counts: async () => new Map() } });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  try {
    using connection = connect(url, 'Bearer alice');
    const times: number[] = [];
    for (let turn = 0; turn < TURNS; turn++) {
      times.push(await connection.call({ method: 'GET', path: '/system/status', body: '' }));
    }
    return times.slice(TURNS / 10);
  } finally {
    await app.close();
  }
}

/** As the manager's own server writes answers. */
const OWN_ENCODER = {
  buildValidator: () => () => () => true,
  buildSerializer: () => () => goJson,
} as unknown as NonNullable<NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']>;

function timesOf(work: (turn: number) => unknown): number[] {
  const times: number[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const begun = performance.now();
    work(turn);
    times.push(performance.now() - begun);
  }
  return times.slice(TURNS / 10);
}
