import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { StoreCount } from '../../buckets/index.ts';
import type { Admin, Authenticator, User } from '../../identity/index.ts';
import type { Capacity, JobStore } from '../../ports/index.ts';
import { jsonErrors } from '../answers.ts';
import { systemPrincipal } from '../authentication.ts';
import { type Inside, type ManagerDeployment, type OidcSettings, statusView } from '../status-view.ts';
import { errorsAsJson } from './metrics-view.ts';

const CpuSchema = Type.Object(
  {
    total_free_cores: Type.Integer(),
    max_free_on_node_cores: Type.Integer(),
    total_schedulable_cores: Type.Integer(),
    total_schedulable_on_node_cores: Type.Integer({ description: 'the most on one node' }),
    total_free: Type.Integer({ description: 'the same as `total_free_cores`' }),
    max_free_on_node: Type.Integer({ description: 'the same as `max_free_on_node_cores`' }),
  },
  { description: 'millicores: free is what is not in use, schedulable what no pod or job has requested' },
);

const MemorySchema = Type.Object({
  total_free_bytes: Type.Integer(),
  max_free_on_node_bytes: Type.Integer(),
  total_schedulable_bytes: Type.Integer(),
  max_schedulable_on_node_bytes: Type.Integer(),
});

const amounts = (...names: string[]) =>
  Type.Object(Object.fromEntries(names.map((name) => [name, Type.Optional(Type.Integer())])), {
    description: 'what is zero is left out',
  });

const NodeSchema = Type.Object({
  name: Type.String(),
  cpu: amounts('capacity_cores', 'usage_cores', 'request_cores'),
  memory: amounts('capacity_bytes', 'usage_bytes', 'request_bytes'),
  gpu: Type.Integer(),
  is_interlink: Type.Boolean(),
  status: Type.Enum(['Ready', 'NotReady', 'Unknown']),
  conditions: Type.Array(Type.Object({ type: Type.String(), status: Type.Boolean() })),
  has_gpu: Type.Boolean(),
});

const DeploymentSchema = Type.Object({
  available_replicas: Type.Integer(),
  ready_replicas: Type.Integer(),
  replicas: Type.Integer(),
  creation_timestamp: Type.String(),
  strategy: Type.String(),
  labels: Type.Record(Type.String(), Type.String()),
});

const StatusSchema = Type.Object({
  cluster: Type.Object({
    nodes_count: Type.Integer(),
    metrics: Type.Object({ cpu: CpuSchema, memory: MemorySchema, gpu: Type.Object({ total_gpu: Type.Integer() }) }),
    nodes: Type.Union([Type.Array(NodeSchema), Type.Null()]),
  }),
  oscar: Type.Object({
    deployment_name: Type.String(),
    ready: Type.Boolean(),
    deployment: DeploymentSchema,
    jobs_count: Type.Integer({ description: 'for administrators; 0 for others, like what follows' }),
    pods: Type.Object({ total: Type.Integer(), states: Type.Record(Type.String(), Type.Integer()) }),
    oidc: Type.Object({
      enabled: Type.Boolean(),
      issuers: Type.Array(Type.String()),
      groups: Type.Array(Type.String()),
    }),
  }),
  minio: Type.Object({ buckets_count: Type.Integer(), total_objects: Type.Integer() }),
});

export interface StatusDeps {
  readonly authenticator: Authenticator;
  readonly capacity: Pick<Capacity, 'nodes'>;
  readonly jobs: Pick<JobStore, 'counts'>;
  /** Absent where this manager does not arrange the object store. */
  readonly stored?: StoreCount | undefined;
  readonly deployment: ManagerDeployment;
  readonly oidc: OidcSettings;
}

/** Routes that create, change or remove buckets. */
const CHANGES = /^\/system\/(services|buckets|replicas)\b/;

export function statusRoutes(app: FastifyInstance, deps: StatusDeps): void {
  const { stored } = deps;
  if (stored) {
    // Before the answer is sent, so that the next status of the same client includes the change.
    app.addHook('onSend', async ({ method, routeOptions }) => {
      if (method !== 'GET' && CHANGES.test(routeOptions.url ?? '')) stored.changed();
    });
  }
  const schema = {
    operationId: 'getStatus',
    summary: 'What is free and what runs',
    tags: ['manager'],
    response: { 200: StatusSchema, ...jsonErrors(400, 429, 503) },
  };
  app.get('/system/status', { schema, onSend: errorsAsJson }, async (request) => {
    const principal = await systemPrincipal(request, deps.authenticator);
    const { capacity, deployment, oidc } = deps;
    return statusView({ nodes: capacity.nodes(), deployment, oidc, inside: await insideFor(principal, deps) });
  });
}

/** Other clusters read the status often, as users. Slow counts are made only for callers who see them. */
async function insideFor(principal: Admin | User, { jobs, stored }: StatusDeps): Promise<Inside | undefined> {
  if (principal.kind !== 'admin' && !principal.operator) return undefined;
  const [counts, { buckets, objects }] = await Promise.all([jobs.counts(), stored?.read() ?? NOTHING]);
  return { jobs: counts, buckets, objects };
}

const NOTHING = { buckets: 0, objects: 0 };
