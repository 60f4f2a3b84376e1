import { type JobState, toPhase } from '../model/job/index.ts';
import type { NodeCapacity } from '../ports/index.ts';

/** What the manager itself runs as. */
export interface ManagerDeployment {
  readonly name: string;
  readonly replicas: number;
  readonly readyReplicas: number;
  /** Of the ready ones, those that have been so for long enough; all of them if left out. */
  readonly availableReplicas?: number;
  readonly createdAt: number;
  readonly strategy: string;
  readonly labels: Readonly<Record<string, string>>;
}

/**
 * A manager on this machine, told in the words of a Deployment: there is one, it is ready since it answers, it began when
 * it was started, and another one can only take its place once it has gone.
 */
export function singleProcess(name: string, startedAt: number): ManagerDeployment {
  return { name, replicas: 1, readyReplicas: 1, createdAt: startedAt, strategy: 'Recreate', labels: { app: name } };
}

export interface OidcSettings {
  readonly enabled: boolean;
  readonly issuers: readonly string[];
  readonly groups: readonly string[];
}

/** What only administrators and operators are told. */
export interface Inside {
  readonly jobs: ReadonlyMap<JobState, number>;
  readonly buckets: number;
  readonly objects: number;
}

export interface StatusParts {
  readonly nodes: readonly NodeCapacity[];
  readonly deployment: ManagerDeployment;
  readonly oidc: OidcSettings;
  /** Absent for other users. */
  readonly inside?: Inside | undefined;
}

/** The status of the cluster (docs/go-manager.md#configuration-and-status). What is called cores are millicores. */
export function statusView({ nodes, deployment, oidc, inside }: StatusParts) {
  return {
    cluster: clusterView(nodes),
    oscar: {
      deployment_name: deployment.name,
      ready: deployment.readyReplicas > 0,
      deployment: {
        available_replicas: deployment.availableReplicas ?? deployment.readyReplicas,
        ready_replicas: deployment.readyReplicas,
        replicas: deployment.replicas,
        creation_timestamp: `${new Date(deployment.createdAt).toISOString().slice(0, -'.000Z'.length)}Z`,
        strategy: deployment.strategy,
        labels: deployment.labels,
      },
      ...jobsView(inside?.jobs),
      oidc: {
        enabled: oidc.enabled,
        issuers: oidc.issuers,
        // Never empty, as in the configuration (docs/go-manager.md#configuration-and-status).
        groups: oidc.groups.length > 0 ? oidc.groups : [''],
      },
    },
    minio: { buckets_count: inside?.buckets ?? 0, total_objects: inside?.objects ?? 0 },
  };
}

/** Other clusters choose by these figures: a node that takes no work has nothing to give. */
function clusterView(nodes: readonly NodeCapacity[]) {
  const ready = nodes.filter((node) => node.ready);
  const free = { cpu: ready.map(({ total, used }) => left(total.cpu, used.cpu)), memory: ready.map(freeMemory) };
  const schedulable = {
    cpu: ready.map(({ total, requested }) => left(total.cpu, requested.cpu)),
    memory: ready.map(({ total, requested }) => left(total.memory, requested.memory)),
  };
  return {
    nodes_count: nodes.length,
    metrics: {
      cpu: {
        total_free_cores: sum(free.cpu),
        max_free_on_node_cores: most(free.cpu),
        total_schedulable_cores: sum(schedulable.cpu),
        // So named, unlike the one of memory.
        total_schedulable_on_node_cores: most(schedulable.cpu),
        // The names of the federation's data model. The Go manager has only those that end in `_cores`.
        total_free: sum(free.cpu),
        max_free_on_node: most(free.cpu),
      },
      memory: {
        total_free_bytes: sum(free.memory),
        max_free_on_node_bytes: most(free.memory),
        total_schedulable_bytes: sum(schedulable.memory),
        max_schedulable_on_node_bytes: most(schedulable.memory),
      },
      gpu: { total_gpu: sum(nodes.map(({ total }) => total.gpu)) },
    },
    nodes: nodes.length > 0 ? nodes.map(nodeView) : null,
  };
}

function nodeView({ name, ready, total, requested, used, state }: NodeCapacity) {
  return {
    name,
    cpu: withoutZeros({ capacity_cores: total.cpu, usage_cores: Math.round(used.cpu), request_cores: requested.cpu }),
    memory: withoutZeros({
      capacity_bytes: total.memory,
      usage_bytes: Math.round(used.memory),
      request_bytes: requested.memory,
    }),
    gpu: total.gpu,
    is_interlink: state?.interlink ?? false,
    status: state?.health ?? (ready ? 'Ready' : 'NotReady'),
    conditions: state?.conditions ?? [{ type: 'Ready', status: ready }],
    has_gpu: total.gpu > 0,
  };
}

/** By name, as Go writes a map. */
const PHASES = ['Failed', 'Pending', 'Running', 'Succeeded', 'Unknown'];

/** A job stands for its pod, whether it runs in one or not. */
function jobsView(jobs: Inside['jobs'] | undefined) {
  if (!jobs) return { jobs_count: 0, pods: { total: 0, states: {} } };
  const states: Record<string, number> = Object.fromEntries(PHASES.map((phase) => [phase, 0]));
  for (const [state, count] of jobs) states[toPhase(state)] = (states[toPhase(state)] ?? 0) + count;
  const total = sum([...jobs.values()]);
  return { jobs_count: total, pods: { total, states } };
}

const freeMemory = ({ total, used }: NodeCapacity) => left(total.memory, used.memory);

/** Scripts may use more than they asked for, and for a moment more than there is. */
const left = (total: number, taken: number) => Math.max(0, Math.round(total - taken));
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const most = (values: readonly number[]) => Math.max(0, ...values);

function withoutZeros(values: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== 0));
}
