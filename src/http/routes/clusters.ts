import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { ClustersView } from '../../delegation/index.ts';
import type { Admin, Authenticator, User } from '../../identity/index.ts';
import { systemPrincipal } from '../authentication.ts';

export interface ClustersDeps {
  readonly authenticator: Authenticator;
  readonly viewClusters: (principal: Admin | User) => Promise<ClustersView>;
}

const ResourceSchema = Type.Object({
  total: Type.Number(),
  used: Type.Number(),
  promised: Type.Number({ description: 'wanted by jobs that were sent there and are not among the used yet' }),
  free: Type.Number(),
});

const ClusterSchema = Type.Object({
  cluster_id: Type.String(),
  self: Type.Boolean({ description: 'the cluster of this manager, which is the first' }),
  cpu: Type.Optional(ResourceSchema),
  memory: Type.Optional(ResourceSchema),
  gpu: Type.Optional(ResourceSchema),
  nodes: Type.Optional(Type.Integer()),
  queued: Type.Optional(Type.Integer({ description: 'jobs that wait there' })),
  round_trip_ms: Type.Optional(Type.Number()),
  age_ms: Type.Optional(Type.Integer({ description: 'how old the figures are' })),
  problem: Type.Optional(Type.String({ description: 'why it did not answer when it was last asked' })),
});

const ClustersSchema = Type.Object({
  clusters: Type.Array(ClusterSchema, { description: 'millicores, bytes and devices; absent if not known' }),
  conditions: Type.Array(Type.Object({ service: Type.String(), type: Type.String(), reason: Type.String() }), {
    description: 'what the owners of federated services must know',
  }),
});

export function clustersRoutes(app: FastifyInstance, { authenticator, viewClusters }: ClustersDeps): void {
  const schema = {
    operationId: 'listClusters',
    summary: 'This cluster and those of your federations: capacity, round trip, problems',
    tags: ['federation'],
    response: { 200: ClustersSchema },
  };
  app.get('/system/clusters', { schema }, async (request) =>
    viewClusters(await systemPrincipal(request, authenticator)),
  );
}
