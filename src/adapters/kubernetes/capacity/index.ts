import { type Capacity, StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { Informer } from '../client/informer.ts';
import type { KubeKind } from '../client/kinds.ts';
import { KubernetesCapacity, nodeHandler, podHandler } from './capacity.ts';
import { DeploymentStatus } from './manager-deployment.ts';
import type { Node, NodeSelection } from './node-info.ts';
import { NodeUsage, repeat } from './node-usage.ts';
import { NOT_ENDED, type ScheduledPod } from './pod-info.ts';
import { parseDemand, type Quantities } from './quantities.ts';

export type { Toleration } from './node-info.ts';
export { difference, GPU, NOTHING, parseDemand, sum } from './quantities.ts';

export interface KubernetesCapacityOptions extends NodeSelection {
  /** Requests of the manager's own containers in each attempt. */
  readonly overhead?: Quantities;
  /** The Deployment of the managers: `OSCAR_NAMESPACE`, `OSCAR_NAME`. */
  readonly manager: { readonly namespace: string; readonly name: string };
  /** Called with problems of background work, which is retried. */
  readonly report: (problem: unknown) => void;
  readonly times?: Partial<typeof TIMES>;
}

export interface OpenCapacity {
  readonly capacity: Capacity;
  /** The manager's own Deployment; its fields change with it. */
  readonly deployment: DeploymentStatus;
  readonly metrics: () => CapacityMetrics;
  readonly close: () => Promise<void>;
}

export interface CapacityMetrics {
  /** Whether the watches of nodes and pods are open at this moment. */
  readonly live: boolean;
  /** How often nodes and pods were listed. */
  readonly lists: { readonly nodes: number; readonly pods: number };
}

/**
 * `usageMs`: how often metrics.k8s.io and the Deployment are read. metrics-server itself updates every 15 s, and admission
 * does not depend on the usage. `startMs`: a cluster of 20,000 pods is listed in a few seconds.
 * `watchMs`, `silenceMs`: see `informer.ts`.
 */
const TIMES = { usageMs: 30_000, startMs: 30_000, watchMs: 300_000, silenceMs: 90_000 };

const NODE: KubeKind = { apiVersion: 'v1', kind: 'Node', plural: 'nodes' };
const POD: KubeKind = { apiVersion: 'v1', kind: 'Pod', plural: 'pods' };

/** Resolves when all nodes and pods are known. */
export async function openKubernetesCapacity(api: Api, options: KubernetesCapacityOptions): Promise<OpenCapacity> {
  const { manager, overhead, report } = options;
  const { usageMs, startMs, watchMs, silenceMs } = { ...TIMES, ...options.times };
  const usage = new NodeUsage(api);
  const deployment = new DeploymentStatus(api, { ...manager, startedAt: Date.now() });
  const capacity = new KubernetesCapacity({ overhead: parseDemand(overhead), used: usage.get });
  let trouble: unknown;
  const reportAs = (what: string) => (error: unknown) => {
    trouble = toStoreError(error, `watch the ${what} of the cluster`);
    report(trouble);
  };
  const watch = { watchMs, silenceMs };
  const nodes = new Informer<Node>(api, NODE, nodeHandler(capacity, options, reportAs('nodes')), watch);
  const pods = new Informer<ScheduledPod>(api, POD, podHandler(capacity, reportAs('pods')), {
    ...watch,
    fieldSelector: NOT_ENDED,
  });
  const closing = new AbortController();
  const polling = [usage, deployment].map((asked) => repeat(() => asked.refresh(), usageMs, closing.signal, report));
  const close = async () => {
    closing.abort();
    capacity.stopNotifying();
    await Promise.all([nodes.stop(), pods.stop(), ...polling]);
  };
  try {
    await within(startMs, Promise.all([nodes.start(), pods.start()]), () => trouble);
  } catch (error) {
    await close();
    throw error;
  }
  const metrics = () => ({ live: nodes.live && pods.live, lists: { nodes: nodes.lists, pods: pods.lists } });
  return { capacity, deployment, metrics, close };
}

async function within(startMs: number, started: Promise<unknown>, trouble: () => unknown): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const cause = trouble();
    const why = cause instanceof Error ? cause.message : 'the Kubernetes API does not answer';
    reject(
      new StoreError('unavailable', `nodes and pods could not be listed within ${startMs / 1_000} s: ${why}`, {
        cause,
      }),
    );
  }, startMs);
  try {
    await Promise.race([started, late]);
  } finally {
    clearTimeout(timer);
  }
}
